/// Which stripes lie on servers, and where their other chunks are: what would have to be rebuilt if these servers died.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/proto/types.pb.h"
#include "common/rpc/method.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::rpc {

/// Calls the metaserver: fills the second message. Both live until the call has ended.
using AskMetaserver = std::function<asio::awaitable<Status>(Method, const google::protobuf::MessageLite&,
                                                            google::protobuf::MessageLite&)>;

/// So many are told at most, which takes a second or two of the metaserver's time.
inline constexpr size_t kMaxPlacedStripes = 50'000;

/// All stripes of which a chunk is on one of the servers, each once, without capabilities. The metaserver is asked for a
/// thousand at a time, so that stripes that are written or moved meanwhile may be missing, or be told as they were.
/// kLimitExceeded: there are more than kMaxPlacedStripes. kConflict: the metaserver is of a version that cannot tell.
asio::awaitable<Result<std::vector<proto::Stripe>>> placed_stripes(AskMetaserver ask,
                                                                   std::vector<uint64_t> server_ids);

}  // namespace kintsugi::rpc
