/// Every RPC of the cluster. Numbers travel over the wire: never renumber.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/runtime/site.h"

namespace kintsugi::rpc {

enum class Method : uint16_t {
  // client -> metaserver, unary (messages in common/proto/meta.proto: <Name>Request, <Name>Response)
  kStat = 1,
  kList = 2,
  kMakeDirectory = 3,
  kRemove = 4,
  kRename = 5,
  kSetPolicy = 6,
  kGetPolicy = 7,
  kListPolicies = 8,
  kOpenRead = 9,
  kAllocateStripe = 10,
  kReplaceChunk = 11,
  kSealStripe = 12,
  kCommitFile = 13,
  kAbortUpload = 14,
  kListServers = 15,
  kShowStripe = 16,
  kFsck = 17,
  kDiskUsage = 18,
  kDiskFree = 19,
  kReportChunk = 20,
  kRepairStatus = 21,
  kRepairHistory = 22,
  kRunRepair = 23,
  kDrainServer = 24,
  kRemoveServer = 25,
  kPlanRead = 26,
  kFinishRead = 27,
  kMetadataStatus = 28,
  kAcceptMetadata = 29,
  kListQuarantine = 30,
  kChangeQuarantine = 31,
  kKeepUpload = 32,
  // tokens (common/proto/token.proto)
  kCreateToken = 33,
  kListTokens = 34,
  kRevokeToken = 35,
  kRevokedTokens = 36,  ///< any daemon -> metaserver
  kFinalize = 37,
  kListDaemons = 38,
  kMaintainServer = 43,
  kLimitRepairs = 44,
  // the same by inode (common/proto/inode.proto)
  kLookup = 100,
  kGetInode = 101,
  kSetAttributes = 102,
  kMakeInode = 103,
  kLink = 104,
  kUnlink = 105,
  kMove = 106,
  kListInode = 107,
  kGetXattr = 108,
  kSetXattr = 109,
  kListXattrs = 110,
  kWriteExtents = 111,
  kCopyExtents = 112,
  kKeepSession = 113,
  kLock = 114,
  kAwaitRecalls = 115,
  kWriteNames = 116,
  kReserveInodes = 117,
  // quotas, snapshots, trash (common/proto/meta.proto)
  kSetQuota = 120,
  kGetQuotas = 121,
  kListQuotas = 122,
  kCreateSnapshot = 123,
  kDeleteSnapshot = 124,
  kListSnapshots = 125,
  kSetTrash = 126,
  kListTrash = 127,
  kRestoreTrash = 128,
  kEmptyTrash = 129,
  // chunkserver -> metaserver, unary
  kRegisterServer = 40,
  kHeartbeat = 41,
  kBlockReport = 42,
  // repair manager daemon -> metaserver, unary (common/proto/coordination.proto)
  kJoinRepair = 50,
  kFetchRepairWork = 51,
  kDescribeStripes = 52,
  kCommitRepair = 53,
  // -> chunkserver (common/proto/chunk.proto)
  kWriteChunk = 60,       ///< stream
  kReadChunk = 61,        ///< stream
  kPartialSum = 62,       ///< stream
  kRepairChunk = 63,      ///< unary
  kProbeLink = 64,        ///< stream
  kEndRepair = 65,        ///< unary
  kVerifyChunks = 66,     ///< stream
  kWriteSmallChunk = 67,  ///< unary
  kReadSmallChunk = 68,   ///< unary
  // any daemon
  kPing = 80,
  kChangeFaults = 81,
  kTrace = 82,  ///< (common/proto/trace.proto)
  kSecretStatus = 83,
  // diagnosis (common/proto/sight.proto)
  kRegisterMonitor = 90,  ///< monitor -> metaserver
  kFindMonitor = 91,      ///< anybody -> metaserver
  kSightReport = 92,      ///< any process -> monitor
  kDiagnose = 93,         ///< anybody -> monitor, or metaserver
};

/// Every Method is below this number.
inline constexpr size_t kMethods = 256;

std::string_view method_name(Method method);
/// None: no method is called so.
std::optional<Method> method_named(std::string_view name);

/// The regions of code that a call is to its caller and to its callee: "call.Stat", "serve.Stat".
const runtime::Site& call_site(Method method);
const runtime::Site& serve_site(Method method);

}  // namespace kintsugi::rpc
