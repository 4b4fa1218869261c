#include "monitoring/similarity/fail_slow.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/statistics.h"
#include "common/proto/verdicts.h"

namespace kintsugi::similarity {
namespace {

/// Octaves of noise that every comparison of devices has.
constexpr double kLeastDeviceSpread = 0.15;
/// Links into a server that are slow, from which it is the server; or that are well, from which it is not.
constexpr size_t kLinksOfAServer = 2;

}  // namespace

void FailSlow::add(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices,
                   TimePoint now) {
  take(owner, devices, now, false);
}

void FailSlow::skip(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices,
                    TimePoint now) {
  take(owner, devices, now, true);
}

void FailSlow::take(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices,
                    TimePoint now, bool skipped) {
  for (const proto::SightDevice* reported : devices) {
    const Key key{owner.server_id != 0 ? owner.server_id : owner.process, reported->peer(), reported->name()};
    auto found = devices_.find(key);
    if (found == devices_.end()) {
      if (devices_.size() >= settings_.most_devices) continue;
      found =
          devices_.emplace(key, Device{.owner = owner, .name = reported->name(), .peer = reported->peer()})
              .first;
    }
    Device& device = found->second;
    // A peer's bytes come by streams, which are none of the calls that are counted and timed.
    const Counters counters{.completed = reported->completed(),
                            .bytes = reported->peer() ? 0 : reported->bytes_in() + reported->bytes_out(),
                            .busy_ns = reported->busy_ns(),
                            .at = now};
    const bool restarted = device.owner.process != owner.process ||
                           counters.completed < device.last.completed || counters.bytes < device.last.bytes ||
                           counters.busy_ns < device.last.busy_ns;
    if (restarted || skipped || !device.begin) device.begin = counters;
    device.owner = owner;
    device.last = counters;
  }
}

void FailSlow::step(TimePoint now) {
  if (judged_at_ && now - *judged_at_ < settings_.window) return;
  judged_at_ = now;
  std::erase_if(devices_,
                [&](const auto& entry) { return now - entry.second.last.at > settings_.forget_after; });
  std::map<Kind, std::vector<Windowed>> kinds;
  for (auto& [key, device] : devices_) {
    if (device.since && now - device.judged > settings_.doubt_after * (1 << device.doublings))
      clear(device, now);
    if (!device.begin || device.last.at <= device.begin->at) continue;
    const Counters begin = *device.begin;
    const uint64_t requests = device.last.completed - begin.completed;
    if (requests < settings_.least_requests) {
      // A device with little to do collects requests for longer, but not for ever.
      if (device.last.at - begin.at > 6 * settings_.window) device.begin = device.last;
      continue;
    }
    device.begin = device.last;
    const double of = static_cast<double>(requests), seconds = to_seconds(device.last.at - begin.at);
    device.requests = of;
    device.service_ns = static_cast<double>(device.last.busy_ns - begin.busy_ns) / of;
    const double request = std::log2(std::max(1.0, device.service_ns));
    const double size = std::log2(1 + static_cast<double>(device.last.bytes - begin.bytes) / of);
    kinds[{device.owner.process_kind, device.peer}].push_back(
        {.device = &device,
         .pace = {.request = request, .byte = request - size, .rate = std::log2(of / seconds)}});
  }
  for (auto& [kind, windows] : kinds)
    judge(windows, now);
}

void FailSlow::raise(Device& device, TimePoint now) {
  if (!device.cleared || now - *device.cleared > settings_.calm_after) {
    device.doublings = 0;
  } else {
    device.doublings = std::min(device.doublings + 1, settings_.most_doublings);
  }
  device.since = device.first_slow;
}

void FailSlow::clear(Device& device, TimePoint now) {
  device.since.reset();
  device.slow.clear();
  device.well = 0;
  device.cleared = now;
}

void FailSlow::learn(Device& device, const Pace& pace) {
  device.normal.push_back(pace);
  if (device.normal.size() > settings_.remember_windows) device.normal.pop_front();
  const auto median = [&](double Pace::* part) {
    std::vector<double> values;
    values.reserve(device.normal.size());
    for (const Pace& normal : device.normal)
      values.push_back(normal.*part);
    return median_of(values);
  };
  device.usual = {
      .request = median(&Pace::request), .byte = median(&Pace::byte), .rate = median(&Pace::rate)};
}

void FailSlow::judge(std::vector<Windowed>& kind, TimePoint now) {
  if (kind.size() < settings_.least_peers + 1) return;
  const auto knows = [&](const Device& device) { return device.normal.size() >= settings_.learn_windows; };
  const auto change_of = [](const Windowed& window) {
    const Pace &pace = window.pace, &usual = window.device->usual;
    return Pace{.request = pace.request - usual.request,
                .byte = pace.byte - usual.byte,
                .rate = pace.rate - usual.rate};
  };
  // What has changed for all of the kind is the load.
  std::vector<double> requests, bytes, rates;
  for (const Windowed& window : kind) {
    if (!knows(*window.device)) continue;
    const Pace change = change_of(window);
    requests.push_back(change.request);
    bytes.push_back(change.byte);
    rates.push_back(change.rate);
  }
  const Pace all{.request = median_of(requests), .byte = median_of(bytes), .rate = median_of(rates)};
  const double deviation = std::max(kLeastDeviceSpread, robust_deviation_of(requests));

  for (const Windowed& window : kind) {
    Device& device = *window.device;
    const Pace now_normal{window.pace.request - all.request, window.pace.byte - all.byte,
                          window.pace.rate - all.rate};
    if (!knows(device) || requests.size() < settings_.least_peers + 1) {
      learn(device, now_normal);
      continue;
    }
    // Larger requests take longer, smaller ones more for each byte: slow is what takes longer for both. What a device
    // has more to do explains as much more time; what it has less to do explains nothing.
    const Pace own = change_of(window);
    const double change =
        std::min(own.request - all.request, own.byte - all.byte) - std::max(0.0, own.rate - all.rate);
    const bool slow = change > std::log2(settings_.raise_factor) && change > settings_.deviations * deviation;
    if (slow && std::accumulate(device.slow.begin(), device.slow.end(), size_t{0}) == 0)
      device.first_slow = now;
    const bool much = change > std::log2(settings_.raise_factor * settings_.much);
    device.slow.push_back(!slow ? 0 : much ? 2 : 1);
    if (device.slow.size() > settings_.of_windows) device.slow.pop_front();
    device.well = change < std::log2(settings_.clear_factor) ? device.well + 1 : 0;
    device.judged = now;
    if (!device.since &&
        std::accumulate(device.slow.begin(), device.slow.end(), size_t{0}) >= settings_.raise_windows)
      raise(device, now);
    if (device.since && device.well >= settings_.clear_windows << device.doublings) clear(device, now);
    if (slow || device.since) {  // a slow device must not redefine what is normal
      if (change > 0) device.factor = std::exp2(change);
      device.peers_ns = device.service_ns / device.factor;
      continue;
    }
    learn(device, now_normal);
  }
}

proto::Verdict FailSlow::verdict(const Device& device, TimePoint now) const {
  proto::Verdict out;
  out.set_kind(device.peer ? proto::Verdict::LINK : proto::Verdict::DEVICE);
  out.set_server(device.owner.name);
  out.set_server_id(device.owner.server_id);
  out.set_process(device.owner.process);
  out.set_process_kind(device.owner.process_kind);
  (device.peer ? *out.mutable_peer() : *out.mutable_device()) = device.name;
  out.set_factor(device.factor);
  out.set_since_ns(
      static_cast<uint64_t>(std::max<int64_t>(0, std::chrono::nanoseconds(now - *device.since).count())));
  out.set_confidence(proto::Verdict::LIKELY);
  out.add_why(fmt::format("{:.1f} times slower than it was, while the others of its kind are as they were",
                          device.factor));
  out.add_why(fmt::format(
      "a request takes {:.2f} ms, {:.2f} ms would be expected; {:.0f} requests in the last window",
      device.service_ns / 1e6, device.peers_ns / 1e6, device.requests));
  return out;
}

FailSlow::LinksByEnd FailSlow::links_by_end() const {
  LinksByEnd links;
  for (const auto& [key, device] : devices_) {
    if (!device.peer || device.normal.size() < settings_.learn_windows) continue;
    for (Links* of : {&links.into[device.name], &links.out_of[device.owner.process]}) {
      of->slow += device.since ? 1 : 0;
      ++of->known;
    }
  }
  return links;
}

std::vector<proto::Verdict> FailSlow::alarms(TimePoint now) const {
  LinksByEnd links = links_by_end();
  std::vector<proto::Verdict> out;
  std::map<std::string, std::vector<const Device*>> into_slow;  // by address
  std::map<uint64_t, const Device*> out_of_slow;                // the worst by process
  for (const auto& [key, device] : devices_) {
    if (!device.since) continue;
    const Links &into = links.into[device.name], &own = links.out_of[device.owner.process];
    if (device.peer && into.slow >= kLinksOfAServer && 2 * into.slow > into.known) {
      into_slow[device.name].push_back(&device);
    } else if (device.peer && own.slow == own.known && into.known - into.slow >= kLinksOfAServer) {
      const Device*& worst = out_of_slow[device.owner.process];
      if (worst == nullptr || worst->factor < device.factor) worst = &device;
    } else {
      out.push_back(verdict(device, now));
    }
  }
  for (const auto& [process, worst] : out_of_slow) {
    proto::Verdict slow = verdict(*worst, now);
    slow.set_kind(proto::Verdict::SLOW);
    const Links& into = links.into[worst->name];
    slow.add_why(fmt::format("{} other links there are as they were", into.known - into.slow));
    out.push_back(std::move(slow));
  }
  for (const auto& [address, slow_links] : into_slow)
    out.push_back(verdict_of_server(address, slow_links, links.into[address].known, now));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.factor() > b.factor(); });
  return out;
}

proto::Verdict FailSlow::verdict_of_server(const std::string& address,
                                           const std::vector<const Device*>& links, size_t known,
                                           TimePoint now) const {
  std::vector<double> factors;
  const Device* first = links.front();
  for (const Device* link : links) {
    factors.push_back(link->factor);
    if (*link->since < *first->since) first = link;
  }
  proto::Verdict slow = verdict(*first, now);
  slow.set_kind(proto::Verdict::SLOW);
  slow.clear_server();
  slow.clear_server_id();
  slow.clear_process();
  slow.set_peer(address);
  slow.set_factor(median_of(factors));
  slow.clear_why();
  slow.add_why(fmt::format("{} of {} servers that call {} find it {:.1f} times slower than it was",
                           links.size(), known, address, slow.factor()));
  for (const Device* link : links) {
    slow.add_servers_waiting(link->owner.name);
    proto::add_waiting(slow, link->owner.process);
  }
  slow.set_waiters(static_cast<uint32_t>(links.size()));
  return slow;
}

}  // namespace kintsugi::similarity
