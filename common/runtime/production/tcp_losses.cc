#include "common/runtime/production/tcp_losses.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace kintsugi::runtime {
namespace {

/// What Linux answers to TCP_INFO (linux/tcp.h), as far as it is read here: the C library's structure ends too early.
struct TcpInfo {
  std::array<std::byte, 100> before{};
  uint32_t total_retrans = 0;
  std::array<uint64_t, 4> rates_and_bytes{};
  std::array<uint32_t, 5> segments_and_more{};
  uint32_t data_segs_out = 0;
  std::array<uint64_t, 4> times{};
  std::array<uint32_t, 2> delivered{};
  std::array<uint64_t, 2> bytes{};
  uint32_t dsack_dups = 0;
  uint32_t reord_seen = 0;
};
static_assert(offsetof(TcpInfo, data_segs_out) == 156 && offsetof(TcpInfo, dsack_dups) == 216);

}  // namespace

void TcpLosses::opened(int descriptor, std::string end) {
  const std::lock_guard lock(mutex_);
  if (open_.size() >= kMostOpen || (ends_.size() >= kMostEnds && !ends_.contains(end))) return;
  open_[descriptor] = {.of = &ends_[std::move(end)], .counted = {}};
}

void TcpLosses::closed(int descriptor) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(descriptor);
  if (found == open_.end()) return;
  count(descriptor, found->second);
  open_.erase(found);
}

void TcpLosses::count(int descriptor, Open& open) {
  TcpInfo info;
  socklen_t bytes = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < sizeof info) return;
  // A segment that is sent again although it had arrived, since its acknowledgement is late on a busy machine, is none
  // that was lost. The peer says so in a duplicate selective acknowledgement.
  const uint64_t lost = info.total_retrans - std::min(info.total_retrans, info.dsack_dups);
  const Totals now{.segments = std::max<uint64_t>(open.counted.segments, info.data_segs_out),
                   .lost = std::max(open.counted.lost, lost)};
  open.of->segments += now.segments - open.counted.segments;
  open.of->lost += now.lost - open.counted.lost;
  open.counted = now;
}

std::vector<LinkLosses> TcpLosses::read(size_t at_most) {
  std::vector<LinkLosses> links;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [descriptor, open] : open_)
      count(descriptor, open);
    for (const auto& [end, totals] : ends_)
      if (totals.segments > 0) links.push_back({end, totals.segments, totals.lost});
  }
  std::ranges::sort(links, std::greater<>(),
                    [](const LinkLosses& link) { return std::tuple(link.lost > 0, link.segments); });
  if (links.size() > at_most) links.resize(at_most);
  return links;
}

}  // namespace kintsugi::runtime
