/// Everything a daemon or client may touch outside itself, in one bundle that is passed to constructors.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "common/runtime/clock.h"
#include "common/runtime/disk.h"
#include "common/runtime/network.h"
#include "common/runtime/random.h"

namespace kintsugi::runtime {

class FaultPoints;

/// One per daemon. All its coroutines run on `executor`, which is single-threaded: no locks are needed above
/// it. What the references name outlives whatever was built with them.
struct Runtime {
  asio::any_io_executor executor;
  Clock& clock;
  Network& network;
  Disk& disk;
  Random& random;
  FaultPoints* faults = nullptr;  ///< the fault points; null: none are built in
};

}  // namespace kintsugi::runtime
