#include "client/cli/cluster_findings.h"

#include <cmath>
#include <set>

#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "common/proto/names.h"
#include "common/proto/verdict_advice.h"

namespace kintsugi::cli {
namespace {

/// Rights to chunks carry times, and certificates do.
constexpr double kNearlyFull = 0.1;
constexpr double kLeastMetadataRoom = 2e9;

struct Limit {
  std::string_view metric;
  Verdict verdict;
  std::string_view says;
};

/// Counts that are 0 while all is well; the number stands before the words.
constexpr Limit kCounts[] = {
    {"kintsugi_stripes_unreadable", Verdict::kProblem,
     "stripes cannot be read: start the servers that are dead"},
    {"kintsugi_stripes_without_spare", Verdict::kProblem, "stripes cannot lose another chunk"},
    {"kintsugi_stripes_degraded", Verdict::kWarning, "stripes lack a chunk, and are repaired"},
    {"kintsugi_servers_not_reported", Verdict::kWarning, "servers have not told all of their chunks"},
    {"kintsugi_metadata_damaged_files", Verdict::kProblem,
     "files of the metadata store are damaged: docs/runbooks/metadata_store.md"},
    {"kintsugi_metadata_in_doubt", Verdict::kProblem,
     "(yes): the metadata is older than chunks: docs/runbooks/restored_metadata.md"},
    {"kintsugi_log_lines_dropped_total", Verdict::kWarning,
     "lines are missing in the log, whose disk was too slow"}};

void judge_counts(const DaemonPages& daemon, std::string_view page, std::vector<Finding>& findings) {
  for (const Limit& limit : kCounts)
    for (const Sample& sample : samples(page, {limit.metric}))
      if (sample.value > 0)
        findings.push_back(
            {limit.verdict, daemon.instance, fmt::format("{:.0f} {}", sample.value, limit.says)});
  for (const Sample& sample : samples(page, {"kintsugi_repair_managers"}))
    if (sample.value == 0)
      findings.push_back(
          {Verdict::kProblem, daemon.instance, "no repair manager is registered: nothing is repaired"});
  for (const Sample& sample : samples(page, {"kintsugi_metaserver_disk_free_bytes"}))
    if (sample.value < kLeastMetadataRoom)
      findings.push_back({Verdict::kProblem, daemon.instance,
                          fmt::format("its disk is nearly full: {} free",
                                      human_bytes(static_cast<uint64_t>(sample.value)))});
}

void judge_certificates(const DaemonPages& daemon, std::string_view page, std::vector<Finding>& findings) {
  for (const Sample& sample : samples(page, {"kintsugi_certificate_expires_seconds"})) {
    if (sample.value > to_seconds(kRenewBefore)) continue;
    const auto of = sample.labels.find("certificate");
    const bool authority = of != sample.labels.end() && of->second == "authority";
    const std::string what = authority ? "its authority's certificate" : "its certificate";
    const bool expired = sample.value <= 0;
    findings.push_back({expired ? Verdict::kProblem : Verdict::kWarning, daemon.instance,
                        expired ? what + " has expired: kintsugi cluster init --renew"
                                : fmt::format("{} expires in {:.0f} days: kintsugi cluster init --renew",
                                              what, std::floor(sample.value / 86'400))});
  }
}

/// "0.2.0 of 1a2b3c", by the page; empty: it does not say.
std::string build_of(std::string_view page) {
  const auto said = samples(page, {"kintsugi_build_info"});
  if (said.empty()) return "";
  const auto label = [&](std::string_view name) {
    const auto found = said.front().labels.find(name);
    return found == said.front().labels.end() ? std::string() : found->second;
  };
  return fmt::format("{} of {}", label("version"), label("commit"));
}

/// Chunkservers that may be away, as the metaserver's page says.
std::set<std::string> in_maintenance(const std::vector<DaemonPages>& daemons) {
  std::set<std::string> names;
  for (const DaemonPages& daemon : daemons)
    if (const auto page = daemon.pages.find("/metrics"); page != daemon.pages.end())
      for (const Sample& sample : samples(page->second, {"kintsugi_maintenance_seconds"}))
        if (const auto name = sample.labels.find("chunkserver"); name != sample.labels.end())
          names.insert(name->second);
  return names;
}

void judge_builds(const std::map<std::string, std::set<std::string>>& builds,
                  std::vector<Finding>& findings) {
  if (builds.empty()) return;
  if (builds.size() == 1)
    return findings.push_back({Verdict::kGood, "the cluster", "all daemons run " + builds.begin()->first});
  std::string text;
  for (const auto& [build, instances] : builds)
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", build, fmt::join(instances, " "));
  findings.push_back({Verdict::kWarning, "the cluster", "daemons run different programs: " + text});
}

}  // namespace

void judge_daemons(const std::vector<DaemonPages>& daemons, std::vector<Finding>& findings) {
  std::map<std::string, std::set<std::string>> builds;
  const std::set<std::string> may_be_away = in_maintenance(daemons);
  for (const DaemonPages& daemon : daemons) {
    const auto page = daemon.pages.find("/metrics");
    if (page == daemon.pages.end()) {
      if (may_be_away.contains(daemon.instance)) continue;
      // KeptConnection::get: it answers, and with something else than its page.
      const bool refuses = daemon.reached.code() == Code::kNotFound;
      findings.push_back({Verdict::kProblem, daemon.instance,
                          fmt::format("it {} at {}: {}", refuses ? "shows no metrics" : "does not answer",
                                      daemon.address, daemon.reached.message())});
      continue;
    }
    if (const std::string build = build_of(page->second); !build.empty())
      builds[build].insert(daemon.instance);
    if (std::abs(daemon.clock_ahead) > kMostClockDifference)
      findings.push_back({Verdict::kProblem, daemon.instance,
                          fmt::format("its clock is {:.1f} s {} this host's", std::abs(daemon.clock_ahead),
                                      daemon.clock_ahead < 0 ? "behind" : "ahead of")});
    judge_counts(daemon, page->second, findings);
    judge_certificates(daemon, page->second, findings);
  }
  judge_builds(builds, findings);
}

void judge_servers(const proto::ListServersResponse& servers, std::vector<Finding>& findings) {
  for (const proto::ServerState& server : by_number(servers)) {
    const auto add = [&](Verdict verdict, std::string says) {
      findings.push_back({verdict, server.name(), std::move(says)});
    };
    if (server.maintenance_seconds() > 0)
      add(Verdict::kWarning,
          fmt::format("it is {} and in maintenance until {}", proto::liveness_name(server.liveness()),
                      time_in(server.maintenance_seconds())));
    if (server.liveness() != proto::ServerState::ALIVE) {
      if (server.maintenance_seconds() > 0) continue;
      add(Verdict::kProblem,
          fmt::format("it is {}: it last said that it lives {:.0f} s ago",
                      proto::liveness_name(server.liveness()), server.seconds_since_heartbeat()));
      continue;
    }
    if (server.failed_disks() > 0)
      add(Verdict::kProblem, fmt::format("{} failed", counted(server.failed_disks(), "disk")));
    if (std::abs(server.clock_difference_seconds()) > kMostClockDifference)
      add(Verdict::kProblem, fmt::format("its clock differs from the metaserver's by {:.1f} s",
                                         server.clock_difference_seconds()));
    for (const proto::DiskState& disk : server.disk_states()) {
      if (disk.health() != proto::DiskState::WELL && disk.health() != proto::DiskState::FAILED)
        add(Verdict::kProblem, fmt::format("disk {} is not well: {}", disk.path(), disk.reason()));
      const bool low =
          static_cast<double>(disk.free_bytes()) < kNearlyFull * static_cast<double>(disk.total_bytes());
      if (disk.full() || (low && disk.total_bytes() > 0))
        add(Verdict::kWarning,
            fmt::format("disk {} is nearly full: {} free", disk.path(), human_bytes(disk.free_bytes())));
    }
  }
}

void judge_alarms(const proto::DiagnoseResponse& answer, std::vector<Finding>& findings) {
  if (answer.reduced())
    findings.push_back({Verdict::kProblem, "the cluster", "no monitor answers: nothing is diagnosed"});
  for (const proto::Verdict& verdict : answer.verdicts()) {
    const bool grave = !verdict.masked() && verdict.kind() != proto::Verdict::RUNS_OUT;
    findings.push_back({grave ? Verdict::kProblem : Verdict::kWarning, "alarm", proto::advise(verdict)});
  }
}

}  // namespace kintsugi::cli
