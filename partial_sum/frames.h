/// Receiving from a stream whose data frames and end frame differ in type: which one it is shows only once it
/// is there.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/types.pb.h"
#include "common/rpc/stream.h"

namespace kintsugi::repair_tree {

/// Fills `data`, or `end` if it is the peer's end frame. A message without fields keeps all of them as
/// unknown ones, so the bytes can be read as what they are afterwards; headers are small.
template <class Data, class End>
asio::awaitable<Result<rpc::Stream::Received>> receive_either(rpc::Stream& stream, Data& data, End& end) {
  proto::Empty raw;
  Result<rpc::Stream::Received> received = co_await stream.receive(raw);
  if (!received) co_return received.error();
  const std::string bytes = raw.SerializeAsString();
  bool parsed = false;
  if (received->end) {
    parsed = end.ParseFromString(bytes);
  } else {
    parsed = data.ParseFromString(bytes);
  }
  if (!parsed) co_return Status{Code::kInvalidArgument, "a frame's header does not parse"};
  co_return *received;
}

}  // namespace kintsugi::repair_tree
