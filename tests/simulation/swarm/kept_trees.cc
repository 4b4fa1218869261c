#include "tests/simulation/swarm/kept_trees.h"

#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>

#include "common/base/crc32c.h"
#include "tests/simulation/cluster/growing_sink.h"

namespace kintsugi::simulation {
namespace {

constexpr std::string_view kTree = "/kept";
constexpr uint64_t kQuotaBytes = 900'000, kQuotaFiles = 6;

/// Names that begin each other, differ in case or in one byte, and are as short and as long as names can be.
const std::vector<std::string>& all_names() {
  static const std::vector<std::string> kNames = {"f",
                                                  "ff",
                                                  "fff",
                                                  "f~",
                                                  "F",
                                                  "foo",
                                                  "foo~",
                                                  "foo.1",
                                                  "g\x01",
                                                  "g\x01"
                                                  "a",
                                                  std::string(255, 'n'),
                                                  std::string(254, 'n') + "m",
                                                  std::string(254, 'n')};
  return kNames;
}

std::string path_of(std::string_view name) {
  return fmt::format("{}/{}", kTree, name);
}

std::string path_of_snapshot(std::string_view name) {
  return fmt::format("{}/.snapshots/{}", kTree, name);
}

}  // namespace

Status KeptTrees::start() {
  KINTSUGI_TRY(cluster_.run(cluster_.client().make_directory(std::string(kTree), false)));
  if (options_.quota)
    KINTSUGI_TRY(cluster_.run(cluster_.client().set_quota(std::string(kTree), kQuotaBytes, kQuotaFiles)));
  if (options_.trash)
    KINTSUGI_TRY(cluster_.run(cluster_.client().set_trash(std::string(kTree), std::chrono::hours(100))));
  return {};
}

void KeptTrees::client_crashed() {
  for (const RunningPtr& running : running_)
    running->abandoned = true;
  running_.clear();
}

void KeptTrees::begin(asio::awaitable<void> operation, RunningPtr running) {
  running_.insert(running);
  asio::co_spawn(cluster_.simulation().executor(), std::move(operation),
                 [this, running](std::exception_ptr error) {
                   // One that its client left is none of ours any more, and we may be gone.
                   if (!running->abandoned) running_.erase(running);
                   if (error) std::rethrow_exception(error);
                 });
}

std::string KeptTrees::any_path(SimRandom& dice) const {
  return path_of(all_names()[dice.below(all_names().size())]);
}

KeptTrees::SnapshotPtr KeptTrees::any_snapshot(SimRandom& dice) const {
  return snapshots_.empty() ? nullptr : snapshots_[dice.below(snapshots_.size())];
}

bool KeptTrees::begin_put(SimRandom& dice) {
  if (!may_begin()) return false;
  std::vector<std::byte> bytes(dice.below(dice.below(4) == 0 ? 400'000 : 5000));
  dice.fill(bytes);
  begin(put(cluster_.client_program(), any_path(dice), std::move(bytes)), std::make_shared<Running>());
  return true;
}

bool KeptTrees::begin_remove(SimRandom& dice) {
  if (!may_begin()) return false;
  begin(remove(cluster_.client_program(), any_path(dice)), std::make_shared<Running>());
  return true;
}

bool KeptTrees::begin_rename(SimRandom& dice) {
  if (!may_begin()) return false;
  std::string from = any_path(dice);
  begin(rename(cluster_.client_program(), std::move(from), any_path(dice)), std::make_shared<Running>());
  return true;
}

bool KeptTrees::begin_snapshot(SimRandom&) {
  if (!may_begin() || snapshots_.size() >= kMostSnapshots) return false;
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->name = fmt::format("s{}", next_snapshot_++);
  snapshots_.push_back(snapshot);
  begin(make_snapshot(cluster_.client_program(), snapshot), std::make_shared<Running>());
  return true;
}

bool KeptTrees::begin_drop(SimRandom& dice) {
  const SnapshotPtr snapshot = any_snapshot(dice);
  if (!may_begin() || !snapshot) return false;
  std::erase(snapshots_, snapshot);
  snapshot->dropped = true;
  begin(drop(cluster_.client_program(), snapshot), std::make_shared<Running>());
  return true;
}

bool KeptTrees::begin_look(SimRandom& dice) {
  const SnapshotPtr snapshot = any_snapshot(dice);
  if (!may_begin() || !snapshot) return false;
  auto running = std::make_shared<Running>();
  begin(look(cluster_.client_program(), snapshot, running, false), running);
  return true;
}

void KeptTrees::note(std::string_view what, const Status& status) {
  ++coverage_.outcomes[fmt::format("{} {}", what, status.ok() ? "ok" : code_name(status.code()))];
}

asio::awaitable<void> KeptTrees::put(ClientProgram& program, std::string path, std::vector<std::byte> bytes) {
  ClientProgram::Use use(program);
  client::MemorySource source(bytes);
  client::WriteOptions options;
  options.replace = true;
  const auto written = co_await program.client().write(std::move(path), source, std::move(options));
  note("kept put", written ? Status{} : written.error());
}

asio::awaitable<void> KeptTrees::remove(ClientProgram& program, std::string path) {
  ClientProgram::Use use(program);
  note("kept remove", co_await program.client().remove(std::move(path), false));
}

asio::awaitable<void> KeptTrees::rename(ClientProgram& program, std::string from, std::string to) {
  ClientProgram::Use use(program);
  note("kept rename", co_await program.client().rename(std::move(from), std::move(to), true));
}

asio::awaitable<void> KeptTrees::make_snapshot(ClientProgram& program, SnapshotPtr snapshot) {
  ClientProgram::Use use(program);
  const Status status = co_await program.client().create_snapshot(std::string(kTree), snapshot->name);
  snapshot->certain = status.ok();
  note("snapshot", status);
}

asio::awaitable<void> KeptTrees::drop(ClientProgram& program, SnapshotPtr snapshot) {
  ClientProgram::Use use(program);
  note("drop of a snapshot", co_await program.client().delete_snapshot(std::string(kTree), snapshot->name));
}

asio::awaitable<Result<KeptTrees::Shown>> KeptTrees::show(client::Client& client,
                                                          const std::string& directory) {
  Shown shown;
  KINTSUGI_CO_ASSIGN(const proto::ListResponse listed, co_await client.list(directory));
  for (const auto& entry : listed.entries()) {
    if (entry.attributes().type() != proto::Attributes::FILE) continue;
    GrowingSink sink;
    const auto read = co_await client.read(fmt::format("{}/{}", directory, entry.name()), sink, {});
    // What is listed is there: a snapshot does not change between the two.
    if (!read && read.error().code() == Code::kNotFound)
      co_return Status{Code::kCorrupt, fmt::format("{} is listed and cannot be found", entry.name())};
    if (!read) co_return read.error();
    shown[entry.name()] = crc32c(sink.bytes);
  }
  co_return shown;
}

asio::awaitable<void> KeptTrees::look(ClientProgram& program, SnapshotPtr snapshot, RunningPtr running,
                                      bool must_succeed) {
  ClientProgram::Use use(program);
  const bool certain = snapshot->certain;
  const auto now = co_await show(program.client(), path_of_snapshot(snapshot->name));
  if (running->abandoned || snapshot->dropped) co_return;
  const Code code = now ? Code::kOk : now.error().code();
  note("look at a snapshot", now ? Status{} : now.error());
  if (now) {
    compare(*snapshot, *now);
  } else if ((code == Code::kNotFound && certain) || code == Code::kCorrupt) {
    found(Violation::kWrongBytes, fmt::format("snapshot {}: {}", snapshot->name, now.error().to_string()));
  } else if (code != Code::kNotFound && must_succeed) {
    found(Violation::kUnreadable, fmt::format("snapshot {}: {}", snapshot->name, now.error().to_string()));
  }
}

void KeptTrees::compare(Snapshot& snapshot, const Shown& now) {
  if (!snapshot.shown) {
    snapshot.shown = now;
    snapshot.certain = true;
    return;
  }
  if (*snapshot.shown == now) return;
  const auto words = [](const Shown& shown) {
    std::string text;
    for (const auto& [name, crc] : shown)
      text += fmt::format(" {}={:08x}", name.size() > 20 ? name.substr(0, 5) + "..." : name, crc);
    return text;
  };
  found(Violation::kWrongBytes, fmt::format("snapshot {} showed{}, and now shows{}", snapshot.name,
                                            words(*snapshot.shown), words(now)));
}

void KeptTrees::found(Violation violation, std::string message) {
  if (!finding_) finding_ = {violation, fmt::format("{}: {}", kTree, message)};
}

Finding KeptTrees::check_quota() {
  const auto quotas = cluster_.run(cluster_.client().quotas_at(std::string(kTree)));
  const auto usage = cluster_.run(cluster_.client().disk_usage(std::string(kTree)));
  if (!quotas || !usage)
    return {Violation::kUnreadable, (quotas ? usage.error() : quotas.error()).to_string()};
  if (quotas->quotas_size() != 1)
    return {Violation::kWrongBytes, fmt::format("{} has {} quotas", kTree, quotas->quotas_size())};
  const proto::Quota& quota = quotas->quotas(0);
  const uint64_t names = usage->files() + usage->directories() - 1;
  if (quota.bytes() == usage->bytes() && quota.files() == names && quota.bytes() <= kQuotaBytes &&
      quota.files() <= kQuotaFiles)
    return {};
  return {Violation::kWrongBytes,
          fmt::format("the quota of {} counts {} bytes of {} files; there are {} of {}", kTree, quota.bytes(),
                      quota.files(), usage->bytes(), names)};
}

Finding KeptTrees::look_at_everything() {
  for (const SnapshotPtr& snapshot : snapshots_) {
    auto running = std::make_shared<Running>();
    begin(look(cluster_.client_program(), snapshot, running, true), running);
    if (!cluster_.simulation().run_until([this] { return running_.empty(); },
                                         SimulatedCluster::kOperationLimit))
      return {Violation::kNoEnd, "a look at a snapshot does not end although there is no fault"};
    if (finding_) return take_finding();
  }
  // What lies in the trash counts for the quota, too, and is nowhere in the directory.
  return options_.quota && !options_.trash ? check_quota() : Finding{};
}

Finding KeptTrees::let_go() {
  const auto listed = cluster_.run(cluster_.client().list_snapshots(std::string(kTree)));
  if (!listed) return {Violation::kUnreadable, listed.error().to_string()};
  for (const proto::Snapshot& snapshot : listed->snapshots()) {
    const Status deleted =
        cluster_.run(cluster_.client().delete_snapshot(std::string(kTree), snapshot.name()));
    if (!deleted.ok() && deleted.code() != Code::kNotFound)
      return {Violation::kNotHealed, deleted.to_string()};
  }
  snapshots_.clear();
  if (!options_.trash) return {};
  const Status emptied = cluster_.run(cluster_.client().empty_trash(std::string(kTree)));
  return emptied.ok() ? Finding{}
                      : Finding{Violation::kNotHealed, "the trash cannot be emptied: " + emptied.to_string()};
}

}  // namespace kintsugi::simulation
