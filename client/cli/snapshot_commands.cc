// snapshot create, list, delete.
#include <cstdio>
#include <ctime>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

struct SnapshotArguments {
  std::string path, name;
};

/// "2026-01-31T17-05-09Z".
std::string name_of_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H-%M-%SZ", &utc);
  return text;
}

Status create_snapshot(Session& session, BlockingClient& client, const SnapshotArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  const std::string name = arguments.name.empty() ? name_of_now() : arguments.name;
  KINTSUGI_TRY(client.run(client.async().create_snapshot(arguments.path, name)));
  const std::string where = join(join(arguments.path, ".snapshots"), name);
  if (session.json) {
    print_json({{"path", arguments.path}, {"name", name}, {"readable_at", where}});
  } else {
    fmt::print("{}\n", shown_name(where));
  }
  return {};
}

Status list_snapshots(Session& session, BlockingClient& client, const SnapshotArguments& arguments) {
  if (!arguments.path.empty()) KINTSUGI_TRY(check_remote(arguments.path));
  KINTSUGI_ASSIGN(const proto::ListSnapshotsResponse answer,
                  client.run(client.async().list_snapshots(arguments.path)));
  Json snapshots = Json::array();
  for (const proto::Snapshot& snapshot : answer.snapshots()) {
    snapshots.push_back({{"path", snapshot.path()},
                         {"name", snapshot.name()},
                         {"created_ns", snapshot.created_ns()},
                         {"kept_bytes", snapshot.kept_bytes()},
                         {"kept_records", snapshot.kept_records()},
                         {"deleting", snapshot.deleting()}});
    if (session.json) continue;
    fmt::print("{:<24} {:<24} {}  keeps {} of files{}\n", shown_name(snapshot.path()),
               shown_name(snapshot.name()), local_time(snapshot.created_ns()),
               human_bytes(snapshot.kept_bytes()), snapshot.deleting() ? "  (being deleted)" : "");
  }
  if (session.json) print_json({{"snapshots", std::move(snapshots)}});
  return {};
}

Status remove_snapshot(Session&, BlockingClient& client, const SnapshotArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  return client.run(client.async().delete_snapshot(arguments.path, arguments.name));
}

}  // namespace

std::vector<Command> snapshot_commands() {
  const auto a = std::make_shared<SnapshotArguments>();
  const Option directory{"PATH", &a->path, "Directory in the cluster", kRequired};
  return {
      {.name = "snapshot",
       .help = "What directories held at a moment, to be read under .snapshots",
       .commands = {{.name = "create",
                     .help = "Keep what is below a directory as it is now; prints where it can be read",
                     .options = {directory, {"NAME", &a->name, "Name of the snapshot; default: the time"}},
                     .prints_json = true,
                     .run = connected(a, create_snapshot)},
                    {.name = "list",
                     .help = "Show snapshots, and the space that each keeps from being freed",
                     .options = {{"PATH", &a->path, "Only those of this directory; default: all"}},
                     .prints_json = true,
                     .run = connected(a, list_snapshots)},
                    {.name = "delete",
                     .help = "Delete a snapshot; what only it kept is freed",
                     .options = {directory, {"NAME", &a->name, "Name of the snapshot", kRequired}},
                     .run = connected(a, remove_snapshot)}}}};
}

}  // namespace kintsugi::cli
