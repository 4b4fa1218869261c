#include "client/lib/resources.h"

#include "common/rpc/follower.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

Context Resources::context() const {
  Context root;
  root.recorder = options.recorder;
  if (rpc::Follower* const traces = rpc::follower(); traces != nullptr && traces->follows_own_work())
    root.connection = rpc::kFollowedRequest;
  return root;
}

}  // namespace kintsugi::client
