#include "client/lib/resources.h"

#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

Context Resources::context() const {
  Context root;
  root.recorder = options.recorder;
  return root;
}

}  // namespace kintsugi::client
