#include "common/rpc/metaserver_clock.h"

#include <cmath>

#include "common/log/log.h"

namespace kintsugi::rpc {

void MetaserverClock::heard(int64_t wall_ns, TimePoint asked) {
  if (wall_ns == 0) return;
  wall_ = WallTime(std::chrono::nanoseconds(wall_ns));
  at_ = asked + (clock_.now() - asked) / 2;
  known_ = true;
  const double ahead = to_seconds(own_ahead());
  const double difference = std::abs(ahead);
  if (!told_ && difference >= to_seconds(kTold)) {
    told_ = true;
    log::warning(
        "the clock of this machine is {:.0f} s {} the metaserver's: nothing fails because of it, since "
        "the metaserver's clock counts, but dates in logs and of files are wrong somewhere; have both follow "
        "NTP",
        difference, ahead > 0 ? "ahead of" : "behind");
  } else if (told_ && difference < to_seconds(kMended)) {
    told_ = false;
    log::info("the clocks of this machine and of the metaserver agree again");
  }
}

WallTime MetaserverClock::now() const {
  return known_ ? wall_ + (clock_.now() - at_) : clock_.wall_now();
}

}  // namespace kintsugi::rpc
