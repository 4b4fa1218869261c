#include "metaserver/service/token_targets.h"

#include "common/proto/inode.pb.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::metaserver {
namespace {

using google::protobuf::MessageLite;
using rpc::Method;

template <class Request>
Targets path_of(const MessageLite& request) {
  return {.paths = {request_as<Request>(request).path()}};
}

template <class Request>
Targets inode_of(const MessageLite& request) {
  return {.inodes = {request_as<Request>(request).inode()}};
}

/// Of a request that names an inode, or else a path.
template <class Request>
Targets either_of(const MessageLite& request) {
  return request_as<Request>(request).inode() != 0 ? inode_of<Request>(request) : path_of<Request>(request);
}

template <class Request>
Targets parent_of(const MessageLite& request) {
  return {.inodes = {request_as<Request>(request).parent()}};
}

Targets targets(const proto::WriteExtentsRequest& request) {
  Targets all{.inodes = {request.inode()}};
  for (const proto::FileExtents& more : request.more())
    all.inodes.push_back(more.inode());
  return all;
}

std::optional<Targets> targets_of_path(Method method, const MessageLite& request) {
  switch (method) {
    case Method::kStat: return path_of<proto::StatRequest>(request);
    case Method::kList: return path_of<proto::ListRequest>(request);
    case Method::kMakeDirectory:
      return Targets{.renamed = {request_as<proto::MakeDirectoryRequest>(request).path()}};
    case Method::kRemove: return Targets{.renamed = {request_as<proto::RemoveRequest>(request).path()}};
    case Method::kRename:
      return Targets{.renamed = {request_as<proto::RenameRequest>(request).from(),
                                 request_as<proto::RenameRequest>(request).to()}};
    case Method::kSetPolicy: return path_of<proto::SetPolicyRequest>(request);
    case Method::kGetPolicy: return path_of<proto::GetPolicyRequest>(request);
    case Method::kDiskUsage: return path_of<proto::DiskUsageRequest>(request);
    case Method::kOpenRead: return either_of<proto::OpenReadRequest>(request);
    case Method::kAllocateStripe: {
      // Later ones of an upload may name nothing.
      const auto& stripe = request_as<proto::AllocateStripeRequest>(request);
      return stripe.upload_id() != 0 && stripe.inode() == 0 && stripe.path().empty()
                 ? Targets{}
                 : either_of<proto::AllocateStripeRequest>(request);
    }
    case Method::kCommitFile: return path_of<proto::CommitFileRequest>(request);
    case Method::kCreateSnapshot: return path_of<proto::CreateSnapshotRequest>(request);
    case Method::kDeleteSnapshot: return path_of<proto::DeleteSnapshotRequest>(request);
    case Method::kGetQuotas: return either_of<proto::GetQuotasRequest>(request);
    case Method::kListSnapshots:
      if (request_as<proto::ListSnapshotsRequest>(request).path().empty()) return std::nullopt;
      return path_of<proto::ListSnapshotsRequest>(request);
    default: return std::nullopt;
  }
}

std::optional<Targets> targets_of_inode(Method method, const MessageLite& request) {
  switch (method) {
    case Method::kLookup: return parent_of<proto::LookupRequest>(request);
    case Method::kGetInode: return inode_of<proto::GetInodeRequest>(request);
    case Method::kSetAttributes: return inode_of<proto::SetAttributesRequest>(request);
    case Method::kMakeInode: return parent_of<proto::MakeInodeRequest>(request);
    case Method::kLink:
      return Targets{.inodes = {request_as<proto::LinkRequest>(request).inode(),
                                request_as<proto::LinkRequest>(request).parent()}};
    case Method::kUnlink: return parent_of<proto::UnlinkRequest>(request);
    case Method::kMove:
      return Targets{.inodes = {request_as<proto::MoveRequest>(request).parent(),
                                request_as<proto::MoveRequest>(request).to_parent()}};
    case Method::kListInode:
      return Targets{.inodes = {request_as<proto::ListInodeRequest>(request).directory()}};
    case Method::kGetXattr: return inode_of<proto::GetXattrRequest>(request);
    case Method::kSetXattr: return inode_of<proto::SetXattrRequest>(request);
    case Method::kListXattrs: return inode_of<proto::ListXattrsRequest>(request);
    case Method::kWriteExtents: return targets(request_as<proto::WriteExtentsRequest>(request));
    case Method::kCopyExtents:
      return Targets{.inodes = {request_as<proto::CopyExtentsRequest>(request).from(),
                                request_as<proto::CopyExtentsRequest>(request).to()}};
    case Method::kLock: return inode_of<proto::LockRequest>(request);
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<Targets> targets_of(Method method, const MessageLite& request) {
  switch (method) {
    case Method::kPing:
    case Method::kListPolicies:
    case Method::kListServers:
    case Method::kDiskFree:
    case Method::kFindMonitor:
    case Method::kAwaitRecalls:
    case Method::kReserveInodes:
    case Method::kAbortUpload:
    case Method::kKeepUpload: return Targets{};
    // These show a capability or a ticket.
    case Method::kPlanRead:
    case Method::kFinishRead:
    case Method::kReplaceChunk:
    case Method::kSealStripe: return Targets{};
    default: break;
  }
  std::optional<Targets> found = targets_of_path(method, request);
  return found ? found : targets_of_inode(method, request);
}

}  // namespace kintsugi::metaserver
