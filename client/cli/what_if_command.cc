// repair what-if: how long the repair of servers would take that are still there, or of a cluster that is only described.
#include <algorithm>
#include <cmath>
#include <set>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"
#include "client/cli/sizing_words.h"
#include "common/rpc/placed_stripes.h"
#include "repair_manager/what_if/loss.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using what_if::Cluster;
using what_if::Forecast;
using what_if::Loss;

struct WhatIfArguments {
  // These options name the servers that are lost.
  std::string server, servers, rack;
  // How it is repaired and answered.
  uint64_t rate = 0;
  std::string budget = "5%";
  // A cluster that is only described; 0 servers: the cluster that the environment names.
  uint32_t servers_total = 0, racks = 0;
  uint64_t stripes = 0, chunk_bytes = 64 << 20;
  std::string policy, link, rack_link;
  double repair_delay = 15 * 60;

  // What check() made of words. Rates of 0 and no policy: not told.
  double budget_share = 0, link_rate = 0, rack_rate = 0;
  std::optional<erasure::Policy> stripe_policy;

  bool described() const { return servers_total > 0; }
};

/// A question, with what the answer is to say of where it comes from.
struct Question {
  Cluster cluster;
  Loss loss;
  bool described = false;
  size_t rates_unknown = 0;     ///< servers whose link rate is not known
  uint64_t missing_chunks = 0;  ///< chunks that the cluster lacks already
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (end > at) parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::vector<std::string> named_servers(const WhatIfArguments& a) {
  return a.server.empty() ? split(a.servers) : std::vector{a.server};
}

Status check_described(const WhatIfArguments& a) {
  if (a.stripes == 0 || !a.stripe_policy) return invalid("--servers-total needs --stripes and --policy");
  const auto cluster = what_if::described(
      {.servers = a.servers_total, .racks = a.racks, .stripes = a.stripes, .policy = *a.stripe_policy});
  return cluster ? Status{} : cluster.error();
}

Status check(WhatIfArguments& a) {
  KINTSUGI_TRY(parse_percent("--budget", a.budget, a.budget_share));
  if (!a.link.empty()) KINTSUGI_TRY(parse_link_rate("--link", a.link, a.link_rate));
  if (!a.rack_link.empty()) KINTSUGI_TRY(parse_link_rate("--rack-link", a.rack_link, a.rack_rate));
  if (!a.policy.empty()) {
    KINTSUGI_ASSIGN(a.stripe_policy, parse_short_policy(a.policy));
  }
  const int told = !a.server.empty() + !a.servers.empty() + !a.rack.empty();
  if (told > 1) return invalid("say what is lost once: --server, --servers or --rack");
  if (a.described()) return check_described(a);
  if (told == 0) return invalid("say what is lost: --server, --servers or --rack");
  if (a.stripes > 0 || a.racks > 0)
    return invalid("--stripes and --racks are for a cluster of --servers-total");
  return {};
}

// ---- a cluster that is only described

/// "server-3" or "3".
Result<uint32_t> described_server(const Cluster& cluster, const std::string& name) {
  for (uint32_t i = 0; i < cluster.servers.size(); ++i)
    if (cluster.servers[i].name == name || std::to_string(i + 1) == name) return i;
  return invalid(
      fmt::format("there is no server {}: they are server-1 to server-{}", name, cluster.servers.size()));
}

Result<Question> describe(const WhatIfArguments& a) {
  Question question{.described = true};
  what_if::Description description{.servers = a.servers_total,
                                   .racks = a.racks,
                                   .stripes = a.stripes,
                                   .policy = *a.stripe_policy,
                                   .chunk_bytes = static_cast<double>(a.chunk_bytes)};
  if (a.link_rate > 0) description.link_rate = a.link_rate;
  KINTSUGI_ASSIGN(question.cluster, what_if::described(description));
  question.cluster.delay_seconds = a.repair_delay;
  for (const std::string& name : named_servers(a)) {
    KINTSUGI_ASSIGN(const uint32_t server, described_server(question.cluster, name));
    question.loss.servers.push_back(server);
  }
  if (question.loss.servers.empty() && a.rack.empty()) question.loss.servers.push_back(0);
  return question;
}

// ---- the cluster that the environment names

void add_servers(const proto::ListServersResponse& servers, Question& question) {
  double stored = 0, chunks = 0;
  for (const proto::ServerState& state : servers.servers()) {
    question.cluster.servers.push_back(what_if::live_server(state));
    question.rates_unknown += state.up_bytes_per_second() == 0 || state.down_bytes_per_second() == 0;
    stored += static_cast<double>(state.stored_bytes());
    chunks += static_cast<double>(state.chunks());
  }
  if (chunks > 0) question.cluster.chunk_bytes = std::max(1.0, stored / chunks);
}

/// Asks where the chunks of the stripes lie that would lose some.
Status add_places(BlockingClient& client, Question& question) {
  std::vector<uint64_t> lost;
  uint64_t chunks = 0;
  for (const uint32_t server : question.loss.servers) {
    lost.push_back(question.cluster.servers[server].id.value);
    chunks += question.cluster.servers[server].chunks;
  }
  if (chunks > rpc::kMaxPlacedStripes) return {};
  const auto stripes = client.run(client.async().placed_stripes(std::move(lost)));
  // There are too many, or the metaserver is of an older version: places are drawn.
  const bool drawn = !stripes && (stripes.error().code() == Code::kLimitExceeded ||
                                  stripes.error().code() == Code::kConflict);
  if (drawn) return {};
  if (!stripes) return stripes.error();
  question.cluster.stripes = what_if::live_stripes(*stripes);
  return {};
}

Result<Question> look_at(BlockingClient& client, const WhatIfArguments& a) {
  Question question;
  Cluster& cluster = question.cluster;
  KINTSUGI_ASSIGN(const proto::ListServersResponse servers, client.run(client.async().list_servers()));
  KINTSUGI_ASSIGN(const proto::DiskFreeResponse free, client.run(client.async().disk_free()));
  KINTSUGI_ASSIGN(const proto::RepairStatusResponse repairs, client.run(client.async().repair_status()));
  add_servers(servers, question);
  KINTSUGI_ASSIGN(cluster.policy, erasure::Policy::parse(free.policy()));
  if (a.stripe_policy) cluster.policy = *a.stripe_policy;
  cluster.delay_seconds = repairs.repair_delay_seconds();
  cluster.usual_rate = a.link_rate;
  question.missing_chunks = free.health().missing_chunks();
  for (const std::string& name : named_servers(a)) {
    KINTSUGI_ASSIGN(const proto::ServerState found, find_server(servers, name));
    const auto at = std::ranges::find(servers.servers(), found.server_id(), &proto::ServerState::server_id);
    question.loss.servers.push_back(static_cast<uint32_t>(at - servers.servers().begin()));
  }
  return question;
}

// ---- both

Status finish(const WhatIfArguments& a, Question& question) {
  question.loss.budget = a.budget_share;
  question.cluster.rack_rate = a.rack_rate;
  question.cluster.repair_limit = static_cast<double>(a.rate);
  if (a.rack.empty()) return {};
  std::set<std::string> racks;
  const auto& servers = question.cluster.servers;
  for (uint32_t i = 0; i < servers.size(); ++i) {
    racks.insert(servers[i].rack);
    if (servers[i].rack == a.rack || (question.described && servers[i].rack == "rack-" + a.rack))
      question.loss.servers.push_back(i);
  }
  if (question.loss.servers.empty())
    return invalid(fmt::format("there is no rack {}: there are {}, {} among them", a.rack, racks.size(),
                               racks.empty() ? "none" : *racks.begin()));
  return {};
}

/// "15 min 12 s", where time_text() is too coarse: what matters comes on top of a long wait.
std::string moment_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 120 || whole >= 2 * 3600) return time_text(seconds);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string names_of(const Question& question) {
  const auto& lost = question.loss.servers;
  if (lost.size() > 3)
    return fmt::format("{} and {} others", question.cluster.servers[lost.front()].name, lost.size() - 1);
  std::string names;
  for (size_t i = 0; i < lost.size(); ++i)
    names += (i == 0 ? "" : ", ") + question.cluster.servers[lost[i]].name;
  return names;
}

std::string link_name(const what_if::BusyLink& link) {
  return fmt::format("{}{} {}", link.rack ? "rack " : "", link.name, link.up ? "sends" : "receives");
}

void print_time(std::string_view what, const Forecast& forecast, std::optional<double> seconds) {
  if (!seconds) {
    fmt::print("  {:<16} never: {}\n", what,
               forecast.waiting_chunks > 0 ? "no server has room for the rest"
                                           : "nothing is left to rebuild it from");
    return;
  }
  fmt::print("  {:<16} after {} ({} to {})\n", what, moment_text(*seconds),
             moment_text(forecast.earliest(*seconds)), moment_text(forecast.latest(*seconds)));
}

void print_times(const Forecast& forecast) {
  fmt::print("Repair\n  {:<16} after {}\n", "begins", moment_text(forecast.begins_seconds));
  print_time("half is rebuilt", forecast, forecast.half_seconds);
  print_time("90 %", forecast, forecast.most_seconds);
  print_time("all", forecast, forecast.all_seconds);
  if (forecast.waiting_chunks > 0)
    fmt::print("  {:.0f} chunks wait until there is a server that can take them\n", forecast.waiting_chunks);
}

void print_danger(const Forecast& forecast) {
  fmt::print("Danger\n");
  if (forecast.lost_stripes > 0)
    fmt::print("  {:.0f} stripes lack too many chunks: their data is lost\n", forecast.lost_stripes);
  const bool in_danger = !forecast.endangered.empty() && forecast.endangered.front().spare == 0;
  if (const auto until = forecast.one_failure_until()) {
    fmt::print("  data is one failure from loss until {}\n", moment_text(forecast.latest(*until)));
  } else {
    fmt::print("  {}\n", in_danger ? "data is one failure from loss until more servers are there"
                                   : "no stripe is one failure from loss");
  }
  for (const what_if::Endangered& level : forecast.endangered)
    fmt::print("  {:.0f} stripes can lose {} more, {}\n", level.stripes, counted(level.spare, "chunk"),
               level.until_seconds ? "the last of them until " + moment_text(*level.until_seconds)
                                   : "until chunks that wait are rebuilt");
}

void print_method(const Question& question, const Forecast& forecast) {
  fmt::print("How this was computed\n");
  switch (forecast.method) {
    case what_if::Method::kExact:
      fmt::print("  every repair was simulated as the repair manager would do it\n");
      break;
    case what_if::Method::kSampled:
      fmt::print(
          "  sampled: {} repairs were simulated, each for {:.1f}; times within {:g} % of the exact ones\n",
          forecast.simulated, forecast.repairs_each, 100 * forecast.error);
      if (forecast.seconds_each > 1)
        fmt::print("  times are in proportion to those of a loss that is repaired {:.1f} times as fast\n",
                   forecast.seconds_each);
      break;
    case what_if::Method::kClosedForm:
      fmt::print("  closed form: nothing was simulated; times within {:g} % of the exact ones\n",
                 100 * forecast.error);
      break;
  }
  fmt::print("  ranges add {:g} %, by which real repairs differ from simulated ones\n",
             100 * what_if::kModelError);
  const Cluster& cluster = question.cluster;
  if (cluster.stripes) {
    fmt::print("  places, sizes and policies of chunks are those that the metaserver has now\n");
  } else {
    fmt::print("  places of chunks are drawn at random{}; all stripes have {}, chunks {}\n",
               question.described ? "" : " from what servers hold", cluster.policy.name(),
               human_bytes(static_cast<uint64_t>(cluster.chunk_bytes)));
  }
  const std::string sooner =
      question.loss.servers.size() > 1
          ? fmt::format(", one of several up to {:g} s sooner", cluster.heartbeat_seconds)
          : "";
  fmt::print(
      "  a dead server is noticed after {:g} s{}; stripes that can still lose two chunks wait {} more\n",
      cluster.detection_seconds, sooner, time_text(cluster.delay_seconds));
  if (question.rates_unknown > 0)
    fmt::print("  the link of {} is not known, and taken to be as the others, or as --link says\n",
               counted(question.rates_unknown, "server"));
  if (question.missing_chunks > 0)
    fmt::print(
        "  {} missing already, and not counted{}\n",
        question.missing_chunks == 1 ? "1 chunk is" : fmt::format("{} chunks are", question.missing_chunks),
        cluster.stripes ? " where their stripes lose nothing more" : "");
  fmt::print("  disks and processors are taken to keep up with links\n");
}

void print_text(const Question& question, const Forecast& forecast) {
  fmt::print("If {} {} now\n", names_of(question), question.loss.servers.size() == 1 ? "dies" : "die");
  fmt::print("  {:.0f} chunks of {:.0f} stripes are lost, {}\n", forecast.chunks, forecast.stripes,
             human_bytes(static_cast<uint64_t>(forecast.bytes)));
  if (forecast.chunks < 1) return;
  print_times(forecast);
  print_danger(forecast);
  fmt::print("Busiest links\n");
  for (const what_if::BusyLink& link : forecast.busiest)
    fmt::print("  {:<32} {}, busy {:.0f} % of the time\n", link_name(link),
               human_bytes(static_cast<uint64_t>(link.bytes)), 100 * link.busy);
  if (forecast.busiest.empty()) fmt::print("  all alike\n");
  print_method(question, forecast);
}

Json time_json(std::optional<double> seconds) {
  return seconds ? Json(*seconds) : Json();
}

Json assumptions_json(const Question& question) {
  const Cluster& cluster = question.cluster;
  return {{"described", question.described},
          {"policy", cluster.policy.name()},
          {"chunk_bytes", static_cast<uint64_t>(cluster.chunk_bytes)},
          {"placement", cluster.stripes ? "known" : "drawn"},
          {"detection_seconds", cluster.detection_seconds},
          {"heartbeat_seconds", cluster.heartbeat_seconds},
          {"delay_seconds", cluster.delay_seconds},
          {"repair_limit_bytes_per_second", cluster.repair_limit},
          {"rack_bytes_per_second", cluster.rack_rate},
          {"servers_of_unknown_rate", question.rates_unknown},
          {"missing_chunks", question.missing_chunks}};
}

Json busiest_json(const Forecast& forecast) {
  Json links = Json::array();
  for (const what_if::BusyLink& link : forecast.busiest)
    links.push_back({{"name", link.name},
                     {"of", link.rack ? "rack" : "server"},
                     {"direction", link.up ? "up" : "down"},
                     {"bytes", static_cast<uint64_t>(link.bytes)},
                     {"busy", link.busy}});
  return links;
}

void print_document(const Question& question, const Forecast& forecast) {
  Json lost = Json::array(), endangered = Json::array();
  for (const uint32_t server : question.loss.servers)
    lost.push_back(question.cluster.servers[server].name);
  for (const what_if::Endangered& level : forecast.endangered)
    endangered.push_back({{"spare", level.spare},
                          {"stripes", level.stripes},
                          {"until_seconds", time_json(level.until_seconds)}});
  const auto& all = forecast.all_seconds;
  print_json({{"lost", std::move(lost)},
              {"chunks", forecast.chunks},
              {"bytes", static_cast<uint64_t>(forecast.bytes)},
              {"stripes", forecast.stripes},
              {"lost_stripes", forecast.lost_stripes},
              {"begins_seconds", forecast.begins_seconds},
              {"half_seconds", time_json(forecast.half_seconds)},
              {"most_seconds", time_json(forecast.most_seconds)},
              {"all_seconds", time_json(all)},
              {"all_seconds_low", all ? Json(forecast.earliest(*all)) : Json()},
              {"all_seconds_high", all ? Json(forecast.latest(*all)) : Json()},
              {"one_failure_until_seconds", time_json(forecast.one_failure_until())},
              {"endangered", std::move(endangered)},
              {"waiting_chunks", forecast.waiting_chunks},
              {"busiest", busiest_json(forecast)},
              {"method", what_if::method_name(forecast.method)},
              {"exact", forecast.method == what_if::Method::kExact},
              {"budget", question.loss.budget},
              {"error", forecast.error},
              {"model_error", what_if::kModelError},
              {"simulated", forecast.simulated},
              {"repairs_each", forecast.repairs_each},
              {"seconds_each", forecast.seconds_each},
              {"assumptions", assumptions_json(question)}});
}

Status run(Session& session, const WhatIfArguments& a) {
  Question question;
  if (a.described()) {
    KINTSUGI_ASSIGN(question, describe(a));
  } else {
    KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
    KINTSUGI_ASSIGN(question, look_at(*client, a));
  }
  KINTSUGI_TRY(finish(a, question));
  if (!a.described()) {
    KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
    KINTSUGI_TRY(add_places(*client, question));
  }
  KINTSUGI_ASSIGN(const Forecast forecast, what_if::forecast_loss(question.cluster, question.loss));
  session.json ? print_document(question, forecast) : print_text(question, forecast);
  return {};
}

}  // namespace

Command what_if_command() {
  const auto a = std::make_shared<WhatIfArguments>();
  return {.name = "what-if",
          .help = "How long repairs would take if servers died now",
          .options =
              {{"--server", &a->server, "Server that is lost"},
               {"--servers", &a->servers, "Servers that are lost together, as in A,B"},
               {"--rack", &a->rack, "Rack whose servers are lost together"},
               {"--at-rate", Bytes{&a->rate},
                "Bytes a second that repairs may take of each link; default: what users leave"},
               {"--budget", &a->budget, "Largest error of the times; 0 is exact; default: 5%"},
               {"--link", &a->link,
                "Rate of links that are not known, each way in bits a second, as in 10g; default: 10g when "
                "described, else that of the others"},
               {"--rack-link", &a->rack_link,
                "Rate between a rack and the others, each way in bits a second; default: no limit"},
               {"--policy", &a->policy, "Policy of the stripes; default: that of the cluster's root"},
               {.names = "--servers-total",
                .target = &a->servers_total,
                .help = "A cluster of so many servers that is only described; asks no server",
                .least = 1,
                .most = what_if::kMostServers},
               {.names = "--stripes",
                .target = &a->stripes,
                .help = "Its stripes",
                .least = 1,
                .most = what_if::kMostStripes},
               {.names = "--racks",
                .target = &a->racks,
                .help = "Its racks; default: one for each server",
                .least = 1,
                .most = what_if::kMostServers},
               {"--chunk-size", Bytes{&a->chunk_bytes}, "Size of its chunks; default: 64MiB"},
               {.names = "--repair-delay",
                .target = &a->repair_delay,
                .help = "Seconds that it waits before it rebuilds what is in no danger; default: 900",
                .most = 7 * 86'400}},
          .prints_json = true,
          .check = [a] { return check(*a); },
          .run = [a](Session& session) { return run(session, *a); }};
}

}  // namespace kintsugi::cli
