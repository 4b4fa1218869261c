// fsck, by what the metaserver knows and by reading every chunk.
#include <map>
#include <optional>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"
#include "common/proto/names.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using client::Damage;
using client::DamagedChunk;
using client::DeepCheckReport;
using client::Mending;

/// Slower reads would look like a server that has stopped.
constexpr uint64_t kLeastRate = 64 << 10;

struct FsckArguments {
  std::string path = "/";
  bool list_missing = false, deep = false;
  uint64_t bytes_per_second = 0;
};

Status check_arguments(const FsckArguments& arguments) {
  if (arguments.bytes_per_second == 0) return {};
  if (!arguments.deep) return {Code::kInvalidArgument, "--rate is for --deep"};
  if (arguments.bytes_per_second >= kLeastRate) return {};
  return {Code::kInvalidArgument, "--rate must be 64KiB at least"};
}

// ---- by what the metaserver knows

struct FsckTotals {
  uint64_t files = 0, directories = 0, stripes = 0, chunks = 0, missing_chunks = 0, degraded = 0, lost = 0;
  uint64_t hanging_chunks = 0, waiting = 0;
  std::map<uint64_t, proto::FsckHanging> hanging;  ///< key: server id
  /// Servers that had not reported all their chunks when some page was made. Key: server id.
  std::map<uint64_t, proto::ServerName> not_reported;
  uint64_t lost_names = 0;  ///< names that snapshots lack

  void add(const proto::FsckResponse& page) {
    files += page.files();
    directories += page.directories();
    stripes += page.stripes();
    chunks += page.chunks();
    missing_chunks += page.missing_chunks();
    degraded += page.degraded_stripes();
    lost += page.lost_stripes();
    hanging_chunks += page.hanging_chunks();
    waiting += page.waiting_stripes();
    for (const proto::FsckSnapshot& snapshot : page.damaged_snapshots())
      lost_names += snapshot.entries();
    for (const proto::ServerName& server : page.not_reported())
      not_reported.emplace(server.server_id(), server);
    for (const proto::FsckHanging& server : page.hanging()) {
      const auto [entry, is_new] = hanging.try_emplace(server.server().server_id(), server);
      if (!is_new) entry->second.set_chunks(entry->second.chunks() + server.chunks());
    }
  }
  google::protobuf::RepeatedPtrField<proto::ServerName> unreported() const {
    google::protobuf::RepeatedPtrField<proto::ServerName> names;
    for (const auto& [id, name] : not_reported)
      *names.Add() = name;
    return names;
  }
  bool nothing_missing() const { return missing_chunks == 0 && degraded == 0 && lost == 0; }
};

Json json_of(const proto::FsckProblem& problem) {
  Json missing = Json::array();
  for (uint32_t index : problem.missing())
    missing.push_back(index);
  return {{"path", problem.path()},
          {"stripe_id", problem.stripe_id()},
          {"missing", std::move(missing)},
          {"lost", problem.lost()},
          {"detail", problem.detail()}};
}

Json json_of(const proto::FsckSnapshot& snapshot) {
  return {{"path", snapshot.path()},
          {"name", snapshot.name()},
          {"lost_names", snapshot.entries()},
          {"detail", snapshot.detail()}};
}

Json json_of(const proto::FsckHanging& server) {
  return {{"server_id", std::to_string(server.server().server_id())},
          {"server_number", server.server().number()},
          {"server_name", server.server().name()},
          {"address", server.address()},
          {"liveness", proto::liveness_name(server.liveness())},
          {"seconds_since_heartbeat", server.seconds_since_heartbeat()},
          {"chunks", server.chunks()}};
}

void print_problem(const proto::FsckProblem& problem, bool only_chunks) {
  std::string indices;
  for (uint32_t index : problem.missing()) {
    if (only_chunks) fmt::print("{}:{}\n", problem.stripe_id(), index);
    indices += fmt::format("{}{}", indices.empty() ? "" : ", ", index);
  }
  if (only_chunks) return;
  fmt::print("{}: stripe {}: missing chunks {}{}{}\n", shown_name(problem.path()), problem.stripe_id(),
             indices, problem.lost() ? ": too few are left, data is lost" : "",
             problem.detail().empty() ? "" : ": " + shown_message(problem.detail()));
}

void print_snapshot(const proto::FsckSnapshot& snapshot) {
  fmt::print("{}: snapshot {} is damaged: {}\n", shown_name(snapshot.path()), shown_name(snapshot.name()),
             shown_message(snapshot.detail()));
}

/// Those that operators said may be away.
Result<std::vector<proto::ServerState>> in_maintenance(BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListServersResponse answer, client.run(client.async().list_servers()));
  std::vector<proto::ServerState> servers = by_number(answer);
  std::erase_if(servers, [](const proto::ServerState& server) { return server.maintenance_seconds() <= 0; });
  return servers;
}

void print_maintenance(const std::vector<proto::ServerState>& servers) {
  for (const proto::ServerState& server : servers)
    fmt::print("server {} is {} and in maintenance until {}\n", server.name(),
               proto::liveness_name(server.liveness()), time_in(server.maintenance_seconds()));
}

Json json_of(const std::vector<proto::ServerState>& maintained) {
  Json servers = Json::array();
  for (const proto::ServerState& server : maintained)
    servers.push_back({{"server_id", std::to_string(server.server_id())},
                       {"server_number", server.number()},
                       {"server_name", server.name()},
                       {"liveness", proto::liveness_name(server.liveness())},
                       {"maintenance_seconds", server.maintenance_seconds()}});
  return servers;
}

void print_hanging(const FsckTotals& totals) {
  for (const auto& [id, server] : totals.hanging) {
    fmt::print("{} hang{} on server {} at {}, which has not answered for {:.0f} s\n",
               counted(server.chunks(), "chunk"), server.chunks() == 1 ? "s" : "", server.server().name(),
               server.address(), server.seconds_since_heartbeat());
  }
  if (totals.waiting > 0)
    fmt::print("{} cannot be read before servers with these chunks answer again\n",
               counted(totals.waiting, "stripe"));
}

struct Found {
  Json problems = Json::array(), snapshots = Json::array();
};

/// Goes through all pages; what is wrong is printed, or put into the arrays, as it comes.
Status go_through(Session& session, BlockingClient& client, const FsckArguments& arguments,
                  FsckTotals& totals, Found& found) {
  proto::FsckResponse page;
  do {
    KINTSUGI_ASSIGN(page, client.run(client.async().fsck(arguments.path, page)));
    totals.add(page);
    for (const proto::FsckProblem& problem : page.problems()) {
      if (session.json) {
        found.problems.push_back(json_of(problem));
      } else {
        print_problem(problem, arguments.list_missing);
      }
    }
    for (const proto::FsckSnapshot& snapshot : page.damaged_snapshots()) {
      if (session.json) {
        found.snapshots.push_back(json_of(snapshot));
      } else if (!arguments.list_missing) {
        print_snapshot(snapshot);
      }
    }
  } while (page.more());
  return {};
}

// ---- by reading

std::string_view damage_text(Damage damage) {
  switch (damage) {
    case Damage::kMissing: return "missing";
    case Damage::kCorrupt: return "corrupt";
    case Damage::kUnreadable: return "unreadable";
    case Damage::kOther: return "other bytes than were written";
  }
  return "";
}

std::string_view mending_text(Mending mending) {
  switch (mending) {
    case Mending::kWaiting: return "not repaired yet";
    case Mending::kRepaired: return "repaired";
    case Mending::kGone: return "its file was removed meanwhile";
    case Mending::kTooFewLeft: return "too few chunks of its stripe are left, data is lost";
  }
  return "";
}

std::string_view mending_name(Mending mending) {
  switch (mending) {
    case Mending::kWaiting: return "waiting";
    case Mending::kRepaired: return "repaired";
    case Mending::kGone: return "gone";
    case Mending::kTooFewLeft: return "lost";
  }
  return "";
}

std::string_view damage_name(Damage damage) {
  return damage == Damage::kOther ? "other" : damage_text(damage);
}

Json json_of(const DamagedChunk& chunk) {
  return {{"path", chunk.path},
          {"stripe_id", chunk.id.stripe.value},
          {"index", chunk.id.index},
          {"server_id", std::to_string(chunk.server.value)},
          {"server_name", chunk.server_name},
          {"damage", damage_name(chunk.damage)},
          {"detail", chunk.detail},
          {"state", mending_name(chunk.mending)},
          {"obstacle", chunk.obstacle}};
}

Json json_of(const client::UnreadChunks& unread) {
  return {{"server_id", std::to_string(unread.server.value)},
          {"server_name", unread.server_name},
          {"address", unread.address},
          {"chunks", unread.chunks},
          {"why", unread.why.to_string()}};
}

Json json_of(const DeepCheckReport& report, double seconds) {
  Json damaged = Json::array(), unread = Json::array();
  for (const DamagedChunk& chunk : report.damaged)
    damaged.push_back(json_of(chunk));
  for (const client::UnreadChunks& chunks : report.unread)
    unread.push_back(json_of(chunks));
  return {{"chunks_read", report.chunks_read},
          {"bytes_read", report.bytes_read},
          {"seconds", seconds},
          {"damaged_chunks", report.chunks_damaged()},
          {"repaired_chunks", report.count(Mending::kRepaired)},
          {"damaged", std::move(damaged)},
          {"unread", std::move(unread)}};
}

void print_deep(const DeepCheckReport& report, double seconds) {
  for (const DamagedChunk& chunk : report.damaged) {
    fmt::print("{}: chunk {} on server {} was {} ({}): {}{}\n", shown_name(chunk.path), chunk.id,
               chunk.server_name, damage_text(chunk.damage), shown_message(chunk.detail),
               mending_text(chunk.mending),
               chunk.obstacle.empty() ? "" : ": " + shown_message(chunk.obstacle));
  }
  for (const client::UnreadChunks& unread : report.unread) {
    fmt::print("{} on server {} at {} could not be read: {}\n", counted(unread.chunks, "chunk"),
               unread.server_name, unread.address, shown_message(unread.why.message()));
  }
  fmt::print("{}, {} read in {}\n", counted(report.chunks_read, "chunk"), human_bytes(report.bytes_read),
             rate_text(report.bytes_read, seconds));
  if (report.chunks_damaged() == 0) {
    fmt::print("none of them was damaged\n");
    return;
  }
  const uint64_t whole = report.count(Mending::kRepaired) + report.count(Mending::kGone);
  if (whole == report.chunks_damaged()) {
    fmt::print("{} {} damaged, and {} been repaired\n", counted(whole, "chunk"), whole == 1 ? "was" : "were",
               whole == 1 ? "has" : "have");
  } else {
    fmt::print("{} were damaged, and {} of them have been repaired\n",
               counted(report.chunks_damaged(), "chunk"), whole);
  }
}

struct Deep {
  DeepCheckReport report;
  double seconds = 0;
};

Result<Deep> read_all(BlockingClient& client, const FsckArguments& arguments) {
  const auto began = std::chrono::steady_clock::now();
  std::optional<Progress> line;  // shown once the amount to read is known
  client::DeepCheckOptions options;
  options.bytes_per_second = arguments.bytes_per_second;
  options.progress = [&line](const client::DeepCheckProgress& now) {
    if (!line) line.emplace("read", now.total_bytes);
    if (now.waiting) {
      line->say(fmt::format("all is read; waiting for the repair of {}, {} of them done",
                            counted(now.damaged, "damaged chunk"), now.settled));
    } else {
      line->add(now.bytes - line->bytes());
    }
  };
  auto report = client.run(client.async().deep_check(arguments.path, std::move(options)));
  line.reset();
  if (!report) return report.error();
  return Deep{std::move(*report),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()};
}

// ---- both together

/// One sentence on all that is not as it should be; ok when everything is.
Status verdict(const FsckTotals& totals, const std::optional<Deep>& deep, bool doubt) {
  std::string wrong;
  const auto add = [&wrong](const std::string& what) { wrong += (wrong.empty() ? "" : "; ") + what; };
  if (!totals.nothing_missing()) {
    add(fmt::format("{} missing in {}, {} lost", counted(totals.missing_chunks, "chunk"),
                    counted(totals.degraded + totals.lost, "stripe"), counted(totals.lost, "stripe")));
  }
  if (totals.hanging_chunks > 0)
    add(fmt::format("{} on servers that do not answer", counted(totals.hanging_chunks, "chunk")));
  if (totals.lost_names > 0) add(fmt::format("{} lost in snapshots", counted(totals.lost_names, "name")));
  if (!totals.not_reported.empty())
    add(not_reported_text(totals.unreported()) + " (what they lost meanwhile is not known before)");
  if (deep && !deep->report.whole()) {
    const DeepCheckReport& report = deep->report;
    uint64_t unread = 0;
    for (const client::UnreadChunks& chunks : report.unread)
      unread += chunks.chunks;
    const uint64_t broken =
        report.chunks_damaged() - report.count(Mending::kRepaired) - report.count(Mending::kGone);
    if (broken > 0) add(fmt::format("{} damaged and not repaired", counted(broken, "chunk")));
    if (unread > 0) add(fmt::format("{} could not be read", counted(unread, "chunk")));
  }
  if (!wrong.empty()) return {Code::kUnavailable, wrong};
  if (!doubt) return {};
  return {Code::kConflict,
          "the metadata is older than chunks of this cluster, so newer files may be missing (see `kintsugi "
          "metadata "
          "status`)"};
}

std::string_view conclusion(const FsckTotals& totals, const std::optional<Deep>& deep) {
  if (!totals.nothing_missing() || totals.lost_names > 0 || (deep && !deep->report.whole()))
    return "not whole";
  if (totals.hanging_chunks > 0) return "nothing is missing, but servers do not answer";
  if (!totals.not_reported.empty())
    return "nothing is known to be missing, but servers have not reported yet";
  return deep ? "all whole" : "all whole, as far as the metaserver knows (fsck --deep reads every chunk)";
}

/// Fails when anything is missing, damaged or out of reach, after it printed everything.
Status fsck(Session& session, BlockingClient& client, const FsckArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  std::optional<Deep> deep;
  if (arguments.deep) {
    KINTSUGI_ASSIGN(deep, read_all(client, arguments));
    if (!session.json) print_deep(deep->report, deep->seconds);
  }
  FsckTotals totals;
  Found found;
  KINTSUGI_TRY(go_through(session, client, arguments, totals, found));
  KINTSUGI_ASSIGN(const proto::MetadataStatusResponse metadata, client.run(client.async().metadata_status()));
  KINTSUGI_ASSIGN(const std::vector<proto::ServerState> maintained, in_maintenance(client));
  const bool doubt = metadata.has_doubt();
  if (session.json) {
    Json hanging = Json::array();
    for (const auto& [id, server] : totals.hanging)
      hanging.push_back(json_of(server));
    Json document{{"path", arguments.path},
                  {"metadata_in_doubt", doubt},
                  {"files", totals.files},
                  {"directories", totals.directories},
                  {"stripes", totals.stripes},
                  {"chunks", totals.chunks},
                  {"missing_chunks", totals.missing_chunks},
                  {"degraded_stripes", totals.degraded},
                  {"lost_stripes", totals.lost},
                  {"hanging_chunks", totals.hanging_chunks},
                  {"waiting_stripes", totals.waiting},
                  {"hanging", std::move(hanging)},
                  {"in_maintenance", json_of(maintained)},
                  {"servers_not_reported", names_json(totals.unreported())},
                  {"damaged_snapshots", std::move(found.snapshots)},
                  {"problems", std::move(found.problems)}};
    if (deep) document["deep"] = json_of(deep->report, deep->seconds);
    print_json(document);
  } else if (!arguments.list_missing) {
    print_hanging(totals);
    print_maintenance(maintained);
    fmt::print("{}, {}, {}, {}: {}\n", counted(totals.files, "file"),
               counted(totals.directories, "directory", "directories"), counted(totals.stripes, "stripe"),
               counted(totals.chunks, "chunk"), conclusion(totals, deep));
  }
  return verdict(totals, deep, doubt);
}

}  // namespace

Command fsck_command() {
  const auto a = std::make_shared<FsckArguments>();
  return {.name = "fsck",
          .help = "Check that every file's chunks are there; the exit code is 1 when not",
          .options = {{"PATH", &a->path, "File or directory in the cluster; default: /"},
                      {.names = "--list-missing",
                       .target = &a->list_missing,
                       .help = "Print only the missing chunks, as STRIPE:INDEX; not with --json",
                       .excludes = "--json"},
                      {.names = "--deep",
                       .target = &a->deep,
                       .help = "Read every chunk on its server, parity too, and repair what is damaged",
                       .excludes = "--list-missing"},
                      {"--rate", Bytes{&a->bytes_per_second},
                       "With --deep: bytes that each server reads in a second, at most"}},
          .prints_json = true,
          .check = [a] { return check_arguments(*a); },
          .run = connected(a, fsck)};
}

}  // namespace kintsugi::cli
