#include "monitoring/metrics/rams/beside_peers.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "monitoring/metrics/orion/beside_peers.h"
#include "monitoring/metrics/orion/rarity.h"

namespace kintsugi::rams {

namespace {

using metric_trace::Series;

/// The rows in which both are known.
std::optional<Fit> healthy_line(const Inputs& inputs, Eigen::Index channel) {
  std::vector<double> app, os;
  for (Eigen::Index row = 0; row < inputs.app.size(); ++row)
    if (std::isfinite(inputs.app[row]) && std::isfinite(inputs.os(row, channel))) {
      app.push_back(inputs.app[row]);
      os.push_back(inputs.os(row, channel));
    }
  const auto fit =
      fit_line(Eigen::Map<const Eigen::VectorXd>(app.data(), static_cast<Eigen::Index>(app.size())),
               Eigen::Map<const Eigen::VectorXd>(os.data(), static_cast<Eigen::Index>(os.size())),
               Line::kWithIntercept);
  return fit ? std::optional(*fit) : std::nullopt;
}

/// Returns each channel less what its line says of the process's own work.
Series residuals_of(const Inputs& inputs, const std::vector<std::optional<Fit>>& lines) {
  Series out{
      .source = inputs.source, .period = inputs.period, .t_ns = inputs.t_ns, .segments = inputs.segments};
  out.names = inputs.channels;
  out.limits.assign(inputs.channels.size(), metric_trace::kMissing);
  out.values = Eigen::MatrixXd::Constant(inputs.os.rows(), inputs.os.cols(), metric_trace::kMissing);
  for (Eigen::Index channel = 0; channel < inputs.os.cols(); ++channel)
    if (const auto& line = lines[static_cast<size_t>(channel)])
      out.values.col(channel) = inputs.os.col(channel) - line->slope * inputs.app -
                                Eigen::VectorXd::Constant(inputs.app.size(), line->intercept);
  return out;
}

orion::Shifts shifts_of(const Inputs& healthy, const Inputs& now) {
  std::vector<std::optional<Fit>> lines;
  metric_trace::Preparation all;
  for (size_t channel = 0; channel < healthy.channels.size(); ++channel) {
    lines.push_back(healthy_line(healthy, static_cast<Eigen::Index>(channel)));
    if (lines.back()) all.live.push_back({.column = channel, .aliases = {}});
  }
  return orion::shifts_of(residuals_of(healthy, lines), residuals_of(now, lines), all, kPeerRows);
}

}  // namespace

BesidePeers parted_from_peers(std::span<const Inputs> healthy, std::span<const Inputs> now) {
  std::vector<orion::Shifts> shifts;
  for (size_t i = 0; i < now.size(); ++i)
    shifts.push_back(shifts_of(healthy[i], now[i]));
  std::vector<const orion::Shifts*> members;
  for (const orion::Shifts& each : shifts)
    members.push_back(&each);
  BesidePeers out{.parted = {}, .compared = std::vector<bool>(now.size(), false)};
  if (members.size() <= orion::kFewestPeers) return out;
  orion::Group group(members);
  for (size_t i = 0; i < shifts.size(); ++i) {
    Parted rarest{.process = i, .channel = {}};
    for (const orion::MetricShifts& channel : shifts[i].metrics) {
      const size_t looks = 2 * shifts.size() * shifts[i].metrics.size() * shifts[i].middles_ns.size();
      const double most = std::max(orion::most_of_normal(looks), group.rarest_when_healthy(channel.name));
      const orion::Shift shift = group.shift_of(shifts[i], channel.name);
      // By itself it leaves its line whenever its work changes.
      if (!shift.beside_peers) continue;
      out.compared[i] = true;
      if (shift.rarity / most <= rarest.excess) continue;
      rarest = {.process = i,
                .channel = channel.name,
                .t_ns = shift.middle_ns,
                .size = shift.size,
                .excess = shift.rarity / most};
    }
    if (rarest.excess > 1) out.parted.push_back(rarest);
  }
  return out;
}

}  // namespace kintsugi::rams
