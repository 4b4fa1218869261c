#include "client/lib/resources.h"

#include "common/rpc/follower.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

Context Resources::context() const {
  Context root;
  root.recorder = options.recorder;
  return rpc::own_work(root);
}

}  // namespace kintsugi::client
