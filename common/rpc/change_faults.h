/// The call by which an operator of a test sets faults in a daemon.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/faults.pb.h"
#include "common/runtime/context.h"
#include "common/runtime/fault_points.h"

namespace kintsugi::rpc {

/// A handler for Server::handle. Either the whole request is carried out or, when something in it makes no sense,
/// nothing. kNotSupported from a daemon that has no fault points.
class ChangeFaults {
 public:
  /// Null: there are none.
  explicit ChangeFaults(runtime::FaultPoints* faults) : faults_(faults) {}

  asio::awaitable<Status> operator()(Context context, const proto::ChangeFaultsRequest& request,
                                     proto::ChangeFaultsResponse& response);

 private:
  runtime::FaultPoints* faults_;
};

}  // namespace kintsugi::rpc
