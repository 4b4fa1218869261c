#include "common/rpc/method.h"

#include <array>
#include <string>
#include <vector>

namespace kintsugi::rpc {

std::string_view method_name(Method method) {
  switch (method) {
    case Method::kStat: return "Stat";
    case Method::kList: return "List";
    case Method::kMakeDirectory: return "MakeDirectory";
    case Method::kRemove: return "Remove";
    case Method::kRename: return "Rename";
    case Method::kSetPolicy: return "SetPolicy";
    case Method::kGetPolicy: return "GetPolicy";
    case Method::kListPolicies: return "ListPolicies";
    case Method::kOpenRead: return "OpenRead";
    case Method::kAllocateStripe: return "AllocateStripe";
    case Method::kReplaceChunk: return "ReplaceChunk";
    case Method::kSealStripe: return "SealStripe";
    case Method::kCommitFile: return "CommitFile";
    case Method::kAbortUpload: return "AbortUpload";
    case Method::kListServers: return "ListServers";
    case Method::kShowStripe: return "ShowStripe";
    case Method::kFsck: return "Fsck";
    case Method::kDiskUsage: return "DiskUsage";
    case Method::kDiskFree: return "DiskFree";
    case Method::kReportChunk: return "ReportChunk";
    case Method::kRepairStatus: return "RepairStatus";
    case Method::kRepairHistory: return "RepairHistory";
    case Method::kRunRepair: return "RunRepair";
    case Method::kRegisterServer: return "RegisterServer";
    case Method::kHeartbeat: return "Heartbeat";
    case Method::kBlockReport: return "BlockReport";
    case Method::kWriteChunk: return "WriteChunk";
    case Method::kReadChunk: return "ReadChunk";
    case Method::kPartialSum: return "PartialSum";
    case Method::kRepairChunk: return "RepairChunk";
    case Method::kDrainServer: return "DrainServer";
    case Method::kRemoveServer: return "RemoveServer";
    case Method::kMaintainServer: return "MaintainServer";
    case Method::kLimitRepairs: return "LimitRepairs";
    case Method::kPlanRead: return "PlanRead";
    case Method::kFinishRead: return "FinishRead";
    case Method::kMetadataStatus: return "MetadataStatus";
    case Method::kAcceptMetadata: return "AcceptMetadata";
    case Method::kFinalize: return "Finalize";
    case Method::kListDaemons: return "ListDaemons";
    case Method::kListQuarantine: return "ListQuarantine";
    case Method::kChangeQuarantine: return "ChangeQuarantine";
    case Method::kKeepUpload: return "KeepUpload";
    case Method::kCreateToken: return "CreateToken";
    case Method::kListTokens: return "ListTokens";
    case Method::kRevokeToken: return "RevokeToken";
    case Method::kRevokedTokens: return "RevokedTokens";
    case Method::kLookup: return "Lookup";
    case Method::kGetInode: return "GetInode";
    case Method::kSetAttributes: return "SetAttributes";
    case Method::kMakeInode: return "MakeInode";
    case Method::kLink: return "Link";
    case Method::kUnlink: return "Unlink";
    case Method::kMove: return "Move";
    case Method::kListInode: return "ListInode";
    case Method::kGetXattr: return "GetXattr";
    case Method::kSetXattr: return "SetXattr";
    case Method::kListXattrs: return "ListXattrs";
    case Method::kWriteExtents: return "WriteExtents";
    case Method::kCopyExtents: return "CopyExtents";
    case Method::kKeepSession: return "KeepSession";
    case Method::kLock: return "Lock";
    case Method::kAwaitRecalls: return "AwaitRecalls";
    case Method::kWriteNames: return "WriteNames";
    case Method::kReserveInodes: return "ReserveInodes";
    case Method::kSetQuota: return "SetQuota";
    case Method::kGetQuotas: return "GetQuotas";
    case Method::kListQuotas: return "ListQuotas";
    case Method::kCreateSnapshot: return "CreateSnapshot";
    case Method::kDeleteSnapshot: return "DeleteSnapshot";
    case Method::kListSnapshots: return "ListSnapshots";
    case Method::kSetTrash: return "SetTrash";
    case Method::kListTrash: return "ListTrash";
    case Method::kRestoreTrash: return "RestoreTrash";
    case Method::kEmptyTrash: return "EmptyTrash";
    case Method::kJoinRepair: return "JoinRepair";
    case Method::kFetchRepairWork: return "FetchRepairWork";
    case Method::kDescribeStripes: return "DescribeStripes";
    case Method::kCommitRepair: return "CommitRepair";
    case Method::kProbeLink: return "ProbeLink";
    case Method::kEndRepair: return "EndRepair";
    case Method::kVerifyChunks: return "VerifyChunks";
    case Method::kWriteSmallChunk: return "WriteSmallChunk";
    case Method::kReadSmallChunk: return "ReadSmallChunk";
    case Method::kPing: return "Ping";
    case Method::kChangeFaults: return "ChangeFaults";
    case Method::kTrace: return "Trace";
    case Method::kSecretStatus: return "SecretStatus";
    case Method::kRegisterMonitor: return "RegisterMonitor";
    case Method::kFindMonitor: return "FindMonitor";
    case Method::kSightReport: return "SightReport";
    case Method::kDiagnose: return "Diagnose";
  }
  return "unknown method";
}

std::optional<Method> method_named(std::string_view name) {
  const std::string_view unknown = method_name(Method{});
  for (size_t i = 0; i < kMethods && name != unknown; ++i)
    if (method_name(static_cast<Method>(i)) == name) return static_cast<Method>(i);
  return std::nullopt;
}

namespace {

/// The sites of all methods under one prefix, with the names that they refer to.
class MethodSites {
 public:
  explicit MethodSites(std::string_view prefix) {
    sites_.reserve(kMethods);
    for (size_t i = 0; i < kMethods; ++i) {
      names_[i] = std::string(prefix) + std::string(method_name(static_cast<Method>(i)));
      sites_.push_back({names_[i]});
    }
  }
  const runtime::Site& of(Method method) const {
    const auto i = static_cast<size_t>(method);
    return sites_[i < kMethods ? i : 0];
  }

 private:
  std::array<std::string, kMethods> names_;
  std::vector<runtime::Site> sites_;
};

}  // namespace

const runtime::Site& call_site(Method method) {
  static const MethodSites sites("call.");
  return sites.of(method);
}

const runtime::Site& serve_site(Method method) {
  static const MethodSites sites("serve.");
  return sites.of(method);
}

}  // namespace kintsugi::rpc
