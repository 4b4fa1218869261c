#include "repair_manager/what_if/cluster_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "erasure/code.h"
#include "erasure/repair_equation.h"
#include "repair_manager/what_if/durability.h"

namespace kintsugi::what_if {
namespace {

constexpr double kScheduleFactor = 1.2;
constexpr uint32_t kMostServers = 100'000, kMostDisks = 1'000;

double choose(uint32_t from, uint32_t some) {
  double ways = 1;
  for (uint32_t i = 0; i < some; ++i)
    ways = ways * (from - i) / (i + 1);
  return ways;
}

Status check(const ClusterShape& shape) {
  const uint32_t chunks = shape.policy.chunks();
  if (shape.servers > kMostServers || shape.disks > kMostDisks || shape.disks == 0)
    return invalid(fmt::format("at most {} servers, with 1 to {} disks each", kMostServers, kMostDisks));
  if (shape.servers < chunks)
    return invalid(fmt::format("a stripe of {} needs {} servers, one for each chunk, and there are {}",
                               shape.policy.name(), chunks, shape.servers));
  if (shape.racks > shape.servers)
    return invalid(fmt::format("{} servers do not fill {} racks", shape.servers, shape.racks));
  const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  if (!positive(shape.disk_bytes) || !positive(shape.link_rate) || !positive(shape.disk_rate) ||
      !positive(shape.chunk_bytes))
    return invalid("sizes and rates must be more than 0");
  if (!(shape.full > 0 && shape.full <= 1)) return invalid("disks are more than 0 and at most 100 % full");
  const auto not_negative = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!not_negative(shape.disk_failures) || !not_negative(shape.server_failures) ||
      !not_negative(shape.detection_seconds) || !not_negative(shape.delay_seconds) ||
      !not_negative(shape.replacement_seconds))
    return invalid("failure rates and times must not be negative");
  return {};
}

void plan_rack(const ClusterShape& shape, Plan& plan) {
  const uint32_t chunks = shape.policy.chunks();
  const uint32_t servers = (shape.servers + shape.racks - 1) / shape.racks;
  const uint32_t chunks_in_rack = (chunks + shape.racks - 1) / shape.racks;
  plan.racks_survived = shape.policy.tolerated() / chunks_in_rack;
  plan.lost_rack_bytes = servers * plan.lost_server_bytes;
  if (*plan.racks_survived == 0) return;
  const double read = chunks_in_rack == 1 ? plan.chunks_read : shape.policy.k;
  plan.rack = repair_time(shape, {.servers = servers}, plan.lost_rack_bytes, read);
}

}  // namespace

std::string_view limit_name(Limit limit) {
  switch (limit) {
    case Limit::kLinks: return "links";
    case Limit::kDisks: return "disks";
    case Limit::kReceivers: return "receivers";
    case Limit::kOneChunk: return "one chunk";
  }
  return "";
}

double mean_chunks_read(const erasure::Policy& policy) {
  const auto code = erasure::Code::get(policy);
  double symbols = 0;
  for (uint32_t lost = 0; lost < policy.chunks(); ++lost) {
    std::vector<uint32_t> others;
    for (uint32_t chunk = 0; chunk < policy.chunks(); ++chunk)
      if (chunk != lost) others.push_back(chunk);
    const auto equation = erasure::repair_equation(*code, std::span(&lost, 1), others);
    symbols += equation ? equation->symbols() : policy.k * policy.rows();
  }
  return symbols / (policy.chunks() * policy.rows());
}

std::vector<double> survived_shares(const erasure::Policy& policy) {
  // A local group makes good for one loss of its own, a global parity for one more wherever it is. `ways` counts sets
  // of chunks by how many they are and how many of them no group makes good for. The rest of a code without groups
  // is one set of chunks where nothing is made good for.
  const bool local = policy.family == erasure::Policy::Family::kLocal;
  const uint32_t makes_good = local ? policy.global() : policy.m;
  std::map<std::pair<uint32_t, uint32_t>, double> ways{{{0, 0}, 1.0}};
  const auto add = [&ways](uint32_t members, uint32_t free) {
    std::map<std::pair<uint32_t, uint32_t>, double> next;
    for (const auto& [key, count] : ways)
      for (uint32_t lost = 0; lost <= members; ++lost)
        next[{key.first + lost, key.second + lost - std::min(lost, free)}] += count * choose(members, lost);
    ways = std::move(next);
  };
  for (uint32_t group = 0; group < policy.local; ++group)
    add(policy.k / policy.local + 1, 1);
  add(local ? policy.global() : policy.chunks(), 0);
  std::vector<double> shares(policy.chunks() + 1);
  for (const auto& [key, count] : ways)
    if (key.second <= makes_good) shares[key.first] += count / choose(policy.chunks(), key.first);
  return shares;
}

RepairTime repair_time(const ClusterShape& shape, LostParts loss, double lost_bytes, double chunks_read) {
  // A server without disks left is no server.
  const uint32_t gone = loss.servers + (shape.disks == 1 ? loss.disks : 0);
  const uint32_t alive = shape.servers - std::min(gone, shape.servers - 1);
  const double disks = std::max(1.0, double(alive) * shape.disks - (shape.disks == 1 ? 0 : loss.disks));
  RepairTime time;
  const auto takes = [&time](double seconds, Limit limit) {
    if (seconds <= time.seconds) return;
    time.seconds = seconds;
    time.limit = limit;
  };
  takes(chunks_read * lost_bytes / (alive * shape.link_rate), Limit::kLinks);
  takes((chunks_read + 1) * lost_bytes / (disks * shape.disk_rate), Limit::kDisks);
  const uint32_t chunks = shape.policy.chunks();
  time.waits_for_replacement = alive < chunks;
  const bool own_server_only = alive == chunks && gone == 0;
  if (time.waits_for_replacement || own_server_only) {
    const double receivers = std::max(1u, time.waits_for_replacement ? gone : loss.disks);
    const double own_disks = own_server_only ? shape.disks - 1 : shape.disks;
    takes(lost_bytes / (receivers * shape.link_rate), Limit::kReceivers);
    takes(lost_bytes / (receivers * own_disks * shape.disk_rate), Limit::kReceivers);
  }
  takes(shape.chunk_bytes / shape.link_rate, Limit::kOneChunk);
  time.seconds *= kScheduleFactor;
  return time;
}

Result<Plan> plan(const ClusterShape& shape) {
  KINTSUGI_TRY(check(shape));
  const erasure::Policy& policy = shape.policy;
  Plan plan;
  plan.raw_bytes = double(shape.servers) * shape.disks * shape.disk_bytes;
  plan.usable_bytes = plan.raw_bytes * policy.k / policy.chunks();
  if (shape.servers > policy.chunks())
    plan.usable_bytes_without_a_server = plan.usable_bytes * (shape.servers - 1) / shape.servers;
  plan.disks_survived = policy.tolerated();
  plan.survived_share = survived_shares(policy);
  plan.chunks_read = mean_chunks_read(policy);
  plan.lost_disk_bytes = shape.full * shape.disk_bytes;
  plan.lost_server_bytes = plan.lost_disk_bytes * shape.disks;
  plan.disk = repair_time(shape, {.disks = 1}, plan.lost_disk_bytes, plan.chunks_read);
  plan.server = repair_time(shape, {.servers = 1}, plan.lost_server_bytes, plan.chunks_read);
  if (shape.racks > 0) plan_rack(shape, plan);
  plan.losses_a_year = losses_a_year(shape);
  plan.loss_probability = -std::expm1(-plan.losses_a_year);
  return plan;
}

}  // namespace kintsugi::what_if
