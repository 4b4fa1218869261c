#include "common/rpc/rights.h"

#include <fmt/format.h>

namespace kintsugi::rpc {
namespace {

std::string_view right_name(Right right) {
  switch (right) {
    case Right::kRead: return "to read";
    case Right::kWrite: return "to write";
    case Right::kInspect: return "to inspect the cluster";
    case Right::kAdminister: return "to administer the cluster";
    case Right::kServe: return "of a daemon";
  }
  return "unknown";
}

/// The least role that gives it.
Role role_with(Right right) {
  switch (right) {
    case Right::kRead: return Role::kRead;
    case Right::kWrite: return Role::kWrite;
    case Right::kInspect:
    case Right::kAdminister: return Role::kAdmin;
    case Right::kServe: return Role::kDaemon;
  }
  return Role::kDaemon;
}

}  // namespace

// There is no default: a method without a row does not compile.
Right right_of(Method method) {
  switch (method) {
    case Method::kStat:
    case Method::kList:
    case Method::kGetPolicy:
    case Method::kListPolicies:
    case Method::kOpenRead:
    case Method::kListServers:
    case Method::kDiskUsage:
    case Method::kDiskFree:
    case Method::kPlanRead:
    case Method::kFinishRead:
    case Method::kLookup:
    case Method::kGetInode:
    case Method::kListInode:
    case Method::kGetXattr:
    case Method::kListXattrs:
    case Method::kKeepSession:
    case Method::kLock:
    case Method::kAwaitRecalls:
    case Method::kGetQuotas:
    case Method::kListSnapshots:
    case Method::kListTrash:
    case Method::kReadChunk:
    case Method::kPartialSum:
    case Method::kReadSmallChunk:
    case Method::kPing:
    case Method::kFindMonitor:
    case Method::kSightReport: return Right::kRead;

    case Method::kMakeDirectory:
    case Method::kRemove:
    case Method::kRename:
    case Method::kSetPolicy:
    case Method::kAllocateStripe:
    case Method::kReplaceChunk:
    case Method::kSealStripe:
    case Method::kCommitFile:
    case Method::kAbortUpload:
    case Method::kKeepUpload:
    case Method::kReportChunk:  // what is reported is not read any more, and is rebuilt
    case Method::kSetAttributes:
    case Method::kMakeInode:
    case Method::kLink:
    case Method::kUnlink:
    case Method::kMove:
    case Method::kSetXattr:
    case Method::kWriteExtents:
    case Method::kCopyExtents:
    case Method::kWriteNames:
    case Method::kReserveInodes:
    case Method::kCreateSnapshot:
    case Method::kDeleteSnapshot:
    case Method::kSetTrash:
    case Method::kRestoreTrash:
    case Method::kEmptyTrash:
    case Method::kWriteChunk:
    case Method::kWriteSmallChunk: return Right::kWrite;

    case Method::kShowStripe:
    case Method::kFsck:  // it shows all files below its path, with capabilities to read them
    case Method::kVerifyChunks:
    case Method::kRepairStatus:
    case Method::kRepairHistory:
    case Method::kMetadataStatus:
    case Method::kListQuarantine:
    case Method::kListTokens:
    case Method::kListDaemons:
    case Method::kSecretStatus:
    case Method::kListQuotas:
    case Method::kFetchRepairWork:
    case Method::kDescribeStripes:
    case Method::kDiagnose: return Right::kInspect;

    case Method::kRunRepair:
    case Method::kDrainServer:
    case Method::kRemoveServer:
    case Method::kMaintainServer:
    case Method::kLimitRepairs:
    case Method::kAcceptMetadata:
    case Method::kFinalize:
    case Method::kChangeQuarantine:
    case Method::kCreateToken:
    case Method::kRevokeToken:
    case Method::kSetQuota:
    case Method::kChangeFaults:
    case Method::kTrace: return Right::kAdminister;

    case Method::kRevokedTokens:
    case Method::kRegisterServer:
    case Method::kHeartbeat:
    case Method::kBlockReport:
    case Method::kJoinRepair:
    case Method::kCommitRepair:
    case Method::kRepairChunk:
    case Method::kProbeLink:
    case Method::kEndRepair:
    case Method::kRegisterMonitor: return Right::kServe;
  }
  return Right::kServe;
}

Right highest_right(Role role) {
  switch (role) {
    case Role::kRead: return Right::kRead;
    case Role::kWrite: return Right::kWrite;
    case Role::kAdmin: return Right::kAdminister;
    case Role::kDaemon: return Right::kServe;
  }
  return Right::kRead;
}

Status check_right(const Principal& principal, Method method) {
  const Right needed = right_of(method);
  if (needed <= highest_right(principal.role)) return {};
  return {Code::kPermissionDenied,
          fmt::format("{} needs the right {}, which {} does not give: its role is {}, and this takes {}",
                      method_name(method), right_name(needed), principal.text(), role_name(principal.role),
                      needed == Right::kServe ? "the cluster's secret"
                                              : fmt::format("{}", role_name(role_with(needed))))};
}

}  // namespace kintsugi::rpc
