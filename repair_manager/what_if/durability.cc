#include "repair_manager/what_if/durability.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::what_if {
namespace {

constexpr double kYearSeconds = 365.25 * 24 * 3600;

class Episodes {
 public:
  explicit Episodes(const ClusterShape& shape)
      : shape_(shape),
        chunks_(shape.policy.chunks()),
        survived_(survived_shares(shape.policy)),
        chunks_read_(mean_chunks_read(shape.policy)),
        stripes_(shape.full * shape.disk_bytes * shape.disks * shape.servers /
                 (chunks_ * shape.chunk_bytes)) {}

  double losses_a_year() const {
    // Losses of all disks and servers by the number of losses that met: the deepest states first.
    const uint32_t deepest = shape_.policy.m;
    std::vector<double> deeper(deepest + 2, 1.0);  // p by the number of disks; beyond the deepest all is lost
    for (uint32_t lost = deepest; lost >= 1; --lost) {
      std::vector<double> now(lost + 1);
      for (uint32_t disks = 0; disks <= lost; ++disks)
        now[disks] = loss_probability({.disks = disks, .servers = lost - disks}, deeper);
      deeper = std::move(now);
    }
    const double disks = double(shape_.servers) * shape_.disks;
    const double of_disk = fatal(0, stripes_in({.disks = 1}));
    const double of_server = fatal(0, stripes_in({.servers = 1}));
    return disks * shape_.disk_failures * either(of_disk, deeper.size() > 1 ? deeper[1] : 1) +
           shape_.servers * shape_.server_failures * either(of_server, deeper[0]);
  }

 private:
  static double either(double one, double other) { return one + (1 - one) * other; }

  double stripes_in(LostParts loss) const {
    double stripes = stripes_;
    for (uint32_t i = 0; i < loss.disks + loss.servers; ++i)
      stripes *= double(chunks_ - i) / (shape_.servers - i);
    return std::max(1.0, stripes / std::pow(shape_.disks, loss.disks));
  }

  /// The probability that one of so many stripes, which survived `lost` losses, does not survive another.
  double fatal(uint32_t lost, double stripes) const {
    if (survived_[lost] <= 0) return 1;
    return 1 - std::pow(std::min(1.0, survived_[lost + 1] / survived_[lost]), stripes);
  }

  /// The expected number of `units` that hold a chunk of one of these stripes. Each holds one of a stripe by `chance`.
  static double in_danger(double units, double chance, double stripes) {
    return chance >= 1 ? units : units * -std::expm1(stripes * std::log1p(-chance));
  }

  double exposed_years(LostParts loss) const {
    const uint32_t lost = loss.disks + loss.servers;
    const double bytes = stripes_in(loss) * lost * shape_.chunk_bytes;
    const RepairTime time = repair_time(shape_, loss, bytes, lost == 1 ? chunks_read_ : shape_.policy.k);
    double seconds = shape_.detection_seconds + time.seconds;
    if (time.waits_for_replacement)
      seconds += shape_.replacement_seconds;
    else if (shape_.policy.tolerated() >= lost + 2)
      seconds += shape_.delay_seconds;
    return seconds / kYearSeconds;
  }

  /// p of this state, from those with one loss more (`deeper`, by their number of disks).
  double loss_probability(LostParts loss, const std::vector<double>& deeper) const {
    const uint32_t lost = loss.disks + loss.servers;
    const uint32_t servers = shape_.servers - lost, holders = chunks_ - lost;
    const double stripes = stripes_in(loss), chance = double(holders) / servers;
    const double disk_rate =
        shape_.disk_failures * in_danger(double(servers) * shape_.disks, chance / shape_.disks, stripes);
    const double server_rate = shape_.server_failures * in_danger(servers, chance, stripes);
    const double fatal_disk = fatal(lost, stripes_in({loss.disks + 1, loss.servers}));
    const double fatal_server = fatal(lost, stripes_in({loss.disks, loss.servers + 1}));
    const double worse = disk_rate * either(fatal_disk, deeper[loss.disks + 1]) +
                         server_rate * either(fatal_server, deeper[loss.disks]);
    return worse / (1 / exposed_years(loss) + disk_rate + server_rate);
  }

  const ClusterShape& shape_;
  const uint32_t chunks_;
  const std::vector<double> survived_;
  const double chunks_read_;
  const double stripes_;
};

}  // namespace

double losses_a_year(const ClusterShape& shape) {
  return Episodes(shape).losses_a_year();
}

}  // namespace kintsugi::what_if
