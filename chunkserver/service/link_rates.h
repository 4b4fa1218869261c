/// The speed of this server's link, each way, in bytes per second of payload.
#pragma once

#include <cstddef>
#include <deque>

#include "chunkserver/service/traffic.h"

namespace kintsugi::chunkserver {

/// A configured rate counts as it is. Otherwise the best of the last few probes does: a probe measures the slower of
/// two links, so that each is a lower bound, and a slow peer must not make this server look slow. Traffic that was
/// really carried is a lower bound as well, but says nothing as long as no probe was made: an idle link is not a
/// slow one.
class LinkRates {
 public:
  static constexpr size_t kProbesKept = 5;

  /// A configured rate of 0 is none. References outlive it.
  LinkRates(const runtime::Clock& clock, LinkTraffic& traffic, uint64_t configured_up,
            uint64_t configured_down)
      : clock_(clock), traffic_(traffic), configured_up_(configured_up), configured_down_(configured_down) {}

  const LinkTraffic& traffic() const { return traffic_; }
  bool configured() const { return configured_up_ > 0 && configured_down_ > 0; }
  /// A probe measured these bytes per second.
  void probed(double up, double down);

  struct Probe {
    double up = 0, down = 0;
  };
  const std::deque<Probe>& probes() const { return probes_; }  ///< newest last

  /// A rate of 0 is not known yet.
  uint64_t up() const;
  uint64_t down() const;

 private:
  const runtime::Clock& clock_;
  LinkTraffic& traffic_;
  const uint64_t configured_up_, configured_down_;
  std::deque<Probe> probes_;
};

}  // namespace kintsugi::chunkserver
