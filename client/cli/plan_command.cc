// plan: what a cluster that does not exist yet would hold, survive, and take to repair. Asks no server.
#include <cmath>

#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/session.h"
#include "client/cli/sizing_words.h"
#include "common/base/human_bytes.h"
#include "repair_manager/what_if/cluster_plan.h"

namespace kintsugi::cli {
namespace {

using what_if::ClusterShape;
using what_if::Plan;
using what_if::RepairTime;

struct PlanArguments {
  uint32_t servers = 0, racks = 0;
  std::string disks, policy = "rs-6-3-1024k", link = "10g";
  uint64_t chunk_bytes = 64 << 20;
  double disk_megabytes = 150, full_percent = 80;
  double disk_failures_percent = 1.5, server_failures_percent = 1, replacement_hours = 24;
  ClusterShape shape;
  Plan plan;
};

Status parse_disks(const std::string& text, ClusterShape& shape) {
  const auto [number, rest] = split_number(text);
  if (number >= 1 && number <= 1000 && number == std::floor(number) && rest.starts_with('x')) {
    shape.disks = static_cast<uint32_t>(number);
    shape.disk_bytes = parse_disk_bytes(rest.substr(1));
  }
  if (shape.disk_bytes > 0) return {};
  return invalid(fmt::format("--disks: {} is not a number of disks and the size of one, as in 8x18T", text));
}

Status make_plan(PlanArguments& a) {
  ClusterShape& shape = a.shape;
  shape.servers = a.servers;
  shape.racks = a.racks;
  KINTSUGI_TRY(parse_disks(a.disks, shape));
  KINTSUGI_TRY(parse_link_rate("--link", a.link, shape.link_rate));
  KINTSUGI_ASSIGN(shape.policy, parse_short_policy(a.policy));
  shape.disk_rate = a.disk_megabytes * 1e6;
  shape.chunk_bytes = static_cast<double>(a.chunk_bytes);
  shape.full = a.full_percent / 100;
  shape.disk_failures = a.disk_failures_percent / 100;
  shape.server_failures = a.server_failures_percent / 100;
  shape.replacement_seconds = a.replacement_hours * 3600;
  KINTSUGI_ASSIGN(a.plan, what_if::plan(shape));
  return {};
}

std::string terabytes(double bytes) {
  return fmt::format("{:.1f} TB ({})", bytes / 1e12, human_bytes(static_cast<uint64_t>(bytes)));
}

std::string chance_text(double chance) {
  if (chance > 0 && chance < 1e-15) return "less than 1e-15";
  return chance < 0.001 ? fmt::format("{:.1e}", chance) : fmt::format("{:.2g}", chance);
}

void print_repair(std::string_view what, const RepairTime& time, double bytes) {
  fmt::print("  {:<17} {} for {:.1f} TB, limited by {}{}\n", what, time_text(time.seconds), bytes / 1e12,
             limit_name(time.limit), time.waits_for_replacement ? ", once it is replaced" : "");
}

void print_survival(const ClusterShape& shape, const Plan& plan) {
  const uint32_t any = plan.disks_survived;
  fmt::print("Survives\n  any {} disks, or any {} servers, at once\n", any, any);
  for (uint32_t lost = any + 1; lost <= shape.policy.m; ++lost)
    fmt::print("  {} losses in a stripe: {:.1f} % of all cases\n", lost, 100 * plan.survived_share[lost]);
  if (plan.racks_survived)
    fmt::print("  {} of {} racks\n",
               *plan.racks_survived == 0 ? "none" : fmt::format("any {}", *plan.racks_survived), shape.racks);
}

void print_assumptions(const PlanArguments& a) {
  const ClusterShape& shape = a.shape;
  fmt::print("Assumed\n");
  fmt::print(
      "  disks: {:g} % full, {:g} MB/s, {:g} % of them fail in a year (--full, --disk-rate, "
      "--disk-failures)\n",
      a.full_percent, a.disk_megabytes, a.disk_failures_percent);
  fmt::print(
      "  servers: {:g} % in a year are gone for good; links of {:g} Gbit/s (--server-failures, --link)\n",
      a.server_failures_percent, shape.link_rate * 8 / 1e9);
  fmt::print("  a replacement takes {:g} h, where repairs need one (--replacement)\n", a.replacement_hours);
  fmt::print(
      "  repairs begin {:g} s after a loss, and {:g} min later for stripes that can still lose two chunks\n",
      shape.detection_seconds, shape.delay_seconds / 60);
  fmt::print("  repairs have links and disks for themselves, and take 1.2 times the bound; chunks of {}\n",
             human_bytes(a.chunk_bytes));
  fmt::print("  the network between servers and racks carries what their links carry\n");
  fmt::print(
      "  disks and servers fail independently: not power, racks, software, people, or sectors that cannot be "
      "read\n");
}

void print_text(const PlanArguments& a) {
  const ClusterShape& shape = a.shape;
  const Plan& plan = a.plan;
  fmt::print("{} servers of {} disks, {}\n", shape.servers, shape.disks, shape.policy.name());
  fmt::print("Space\n  raw               {}\n  usable            {}\n", terabytes(plan.raw_bytes),
             terabytes(plan.usable_bytes));
  if (plan.usable_bytes_without_a_server)
    fmt::print("  with room to      {}: all is whole again without a lost server\n",
               terabytes(*plan.usable_bytes_without_a_server));
  else
    fmt::print("  no server to spare: a lost server's chunks wait for its replacement\n");
  print_survival(shape, plan);
  fmt::print("Repair, which reads {:.1f} chunks for one that is lost\n", plan.chunks_read);
  print_repair("a disk", plan.disk, plan.lost_disk_bytes);
  print_repair("a server", plan.server, plan.lost_server_bytes);
  if (plan.rack) print_repair("a rack", *plan.rack, plan.lost_rack_bytes);
  fmt::print("Data is lost within a year with probability {}\n", chance_text(plan.loss_probability));
  print_assumptions(a);
}

Json repair_json(const RepairTime& time, double bytes) {
  return {{"bytes", static_cast<uint64_t>(bytes)},
          {"seconds", time.seconds},
          {"limit", limit_name(time.limit)},
          {"waits_for_replacement", time.waits_for_replacement}};
}

Json assumptions_json(const ClusterShape& shape) {
  return {{"full", shape.full},
          {"link_bytes_per_second", shape.link_rate},
          {"disk_bytes_per_second", shape.disk_rate},
          {"chunk_bytes", static_cast<uint64_t>(shape.chunk_bytes)},
          {"disk_failures_a_year", shape.disk_failures},
          {"server_failures_a_year", shape.server_failures},
          {"detection_seconds", shape.detection_seconds},
          {"delay_seconds", shape.delay_seconds},
          {"replacement_seconds", shape.replacement_seconds}};
}

void print_document(const PlanArguments& a) {
  const Plan& plan = a.plan;
  Json survived = Json::array();
  for (const double share : plan.survived_share)
    survived.push_back(share);
  const auto bytes = [](double number) { return static_cast<uint64_t>(number); };
  print_json(
      {{"policy", a.shape.policy.name()},
       {"raw_bytes", bytes(plan.raw_bytes)},
       {"usable_bytes", bytes(plan.usable_bytes)},
       {"usable_bytes_without_a_server",
        plan.usable_bytes_without_a_server ? Json(bytes(*plan.usable_bytes_without_a_server)) : Json()},
       {"disks_survived", plan.disks_survived},
       {"servers_survived", plan.disks_survived},
       {"racks_survived", plan.racks_survived ? Json(*plan.racks_survived) : Json()},
       {"survived_shares", std::move(survived)},
       {"chunks_read", plan.chunks_read},
       {"disk", repair_json(plan.disk, plan.lost_disk_bytes)},
       {"server", repair_json(plan.server, plan.lost_server_bytes)},
       {"rack", plan.rack ? repair_json(*plan.rack, plan.lost_rack_bytes) : Json()},
       {"losses_a_year", plan.losses_a_year},
       {"loss_probability", plan.loss_probability},
       {"assumptions", assumptions_json(a.shape)}});
}

}  // namespace

std::vector<Command> plan_commands() {
  const auto a = std::make_shared<PlanArguments>();
  return {
      {.name = "plan",
       .help = "What a cluster would hold, survive, and take to repair; asks no server",
       .options = {{.names = "--servers",
                    .target = &a->servers,
                    .help = "Number of servers",
                    .need = kRequired,
                    .least = 1,
                    .most = 100'000},
                   {"--disks", &a->disks, "Disks of a server, as in 8x18T", kRequired},
                   {"--policy", &a->policy, "Default: rs-6-3; the size of cells may be left out"},
                   {"--link", &a->link, "Rate of a server's link each way in bits a second; default: 10g"},
                   {.names = "--racks",
                    .target = &a->racks,
                    .help = "Racks among which servers are divided",
                    .least = 1,
                    .most = 100'000},
                   {"--disk-rate", &a->disk_megabytes, "MB/s that a disk reads or writes; default: 150"},
                   {.names = "--full",
                    .target = &a->full_percent,
                    .help = "Percent of the disks in use; default: 80",
                    .most = 100},
                   {.names = "--disk-failures",
                    .target = &a->disk_failures_percent,
                    .help = "Percent of disks that fail in a year; default: 1.5",
                    .most = 1000},
                   {.names = "--server-failures",
                    .target = &a->server_failures_percent,
                    .help = "Percent of servers that are gone for good in a year; default: 1",
                    .most = 1000},
                   {.names = "--replacement",
                    .target = &a->replacement_hours,
                    .help = "Hours until a new server or disk is there; default: 24",
                    .most = 100'000},
                   {"--chunk-size", Bytes{&a->chunk_bytes}, "Size of a chunk; default: 64MiB"}},
       .prints_json = true,
       .check = [a] { return make_plan(*a); },
       .run =
           [a](Session& session) {
             session.json ? print_document(*a) : print_text(*a);
             return Status{};
           }}};
}

}  // namespace kintsugi::cli
