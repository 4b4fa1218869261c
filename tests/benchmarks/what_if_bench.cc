// How far approximate forecasts of losses are from exact ones, and what both cost.
//
//   what_if_bench [--servers 100] [--racks 0: one for each server] [--policy rs-8-4-1024k] [--lost 5000: chunks of a
//       server] [--slow-percent 0: of the servers, whose links have a quarter of the rate] [--dead 1: servers that are
//       lost] [--rack-gbit 0: no limit] [--simulate 0,500,auto5: repairs; 0: all; auto5: within 5 %] [--seeds 3]
//
// Prints one line for each seed and number of repairs: the seconds that half, 90 % and all of the repair takes, its method, and
// the processor's seconds that the forecast took. No real time or processor is in the forecast itself.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/log/log.h"
#include "repair_manager/what_if/loss.h"

namespace kintsugi::what_if {
namespace {

struct Settings {
  Description cluster{.servers = 100};
  std::string policy = "rs-8-4-1024k", simulate = "0,500,1000,2000";
  uint64_t lost = 5000, seeds = 3;
  uint32_t slow_percent = 0, dead = 1;
  double rack_gbit = 0;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    const auto number = [&] { return std::stoul(value); };
    if (name == "--servers")
      settings.cluster.servers = static_cast<uint32_t>(number());
    else if (name == "--racks")
      settings.cluster.racks = static_cast<uint32_t>(number());
    else if (name == "--policy")
      settings.policy = value;
    else if (name == "--lost")
      settings.lost = number();
    else if (name == "--slow-percent")
      settings.slow_percent = static_cast<uint32_t>(number());
    else if (name == "--dead")
      settings.dead = static_cast<uint32_t>(number());
    else if (name == "--rack-gbit")
      settings.rack_gbit = std::stod(value);
    else if (name == "--simulate")
      settings.simulate = value;
    else if (name == "--seeds")
      settings.seeds = number();
    else {
      fmt::print(stderr, "unknown option {}\n", name);
      std::exit(2);
    }
  }
  return settings;
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void measure(const Cluster& cluster, Loss loss, const std::string& how) {
  if (how.starts_with("auto")) {
    loss.budget = std::stod(how.substr(4)) / 100;
  } else if (how == "0") {
    loss.budget = 0;
  } else {
    loss.simulate = std::stoul(how);
  }
  const double began = cpu_seconds();
  const Result<Forecast> forecast = forecast_loss(cluster, loss);
  const double cpu = cpu_seconds() - began;
  if (!forecast) {
    fmt::print("{}\n", forecast.error().to_string());
    return;
  }
  const auto after = [&](std::optional<double> time) { return time.value_or(-1) - forecast->begins_seconds; };
  fmt::print(
      "{{\"seed\": {}, \"how\": \"{}\", \"method\": \"{}\", \"simulated\": {}, \"half\": {:.4f}, \"most\": "
      "{:.4f}, "
      "\"all\": {:.4f}, \"cpu\": {:.3f}}}\n",
      loss.seed, how, method_name(forecast->method), forecast->simulated, after(forecast->half_seconds),
      after(forecast->most_seconds), after(forecast->all_seconds), cpu);
  std::fflush(stdout);
}

int run(Settings settings) {
  Description& description = settings.cluster;
  description.policy = erasure::Policy::parse(settings.policy).value();
  description.stripes = settings.lost * description.servers / description.policy.chunks();
  Cluster cluster = described(description).value();
  cluster.rack_rate = settings.rack_gbit * 1e9 / 8;
  for (uint32_t i = 0; i < description.servers; ++i) {
    if ((i + 1) * 7919 % 100 >= settings.slow_percent) continue;
    cluster.servers[i].up /= 4;
    cluster.servers[i].down /= 4;
  }
  for (uint64_t seed = 1; seed <= settings.seeds; ++seed) {
    Loss loss{.seed = seed};
    for (uint32_t i = 0; i < settings.dead; ++i)
      loss.servers.push_back(description.racks > 0 ? i * description.racks : i);
    for (size_t at = 0; at < settings.simulate.size();) {
      const size_t end = std::min(settings.simulate.find(',', at), settings.simulate.size());
      measure(cluster, loss, settings.simulate.substr(at, end - at));
      at = end + 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace kintsugi::what_if

int main(int argc, char** argv) {
  kintsugi::log::set_level(kintsugi::log::Level::kError);
  return kintsugi::what_if::run(kintsugi::what_if::parse(argc, argv));
}
