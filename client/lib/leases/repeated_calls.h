/// Calls of the metaserver that are repeated while it does not answer.
#pragma once

#include <google/protobuf/message_lite.h>

#include "client/lib/meta_link.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/rpc/method.h"

namespace kintsugi::client {

/// Up to the I/O timeout, or the deadline of the context: then kUnavailable. Outlives its calls.
class RepeatedCalls {
 public:
  using Message = google::protobuf::MessageLite;

  /// `io_timeout` 0: for ever.
  RepeatedCalls(Resources& resources, Duration io_timeout);

  asio::awaitable<Status> call(Context context, rpc::Method method, const Message& request,
                               Message& response);

 private:
  Resources& resources_;
  const Duration io_timeout_;
  MetaLink link_;
};

/// The metaserver did not answer in time; it may have carried out the call, or may do so when it comes again.
bool is_without_answer(const Status& status);
/// The metaserver refused the call: it was not carried out and will not be. Not so when the client stopped waiting.
bool is_refused(const Status& status);

}  // namespace kintsugi::client
