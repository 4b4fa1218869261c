// trash set, list, restore, empty.
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/long_time.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

struct TrashArguments {
  std::string path, entry, to, retention;
};

Status set_trash(Session&, BlockingClient& client, const TrashArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  KINTSUGI_ASSIGN(const Duration retention, parse_long_time(arguments.retention));
  return client.run(client.async().set_trash(arguments.path, retention));
}

Status list_trash(Session& session, BlockingClient& client, const TrashArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  Json entries = Json::array();
  std::string after, directory;
  int64_t retention_ns = 0;
  while (true) {
    KINTSUGI_ASSIGN(const proto::ListTrashResponse page,
                    client.run(client.async().list_trash(arguments.path, after)));
    directory = page.directory();
    retention_ns = page.retention_ns();
    for (const proto::Trashed& entry : page.entries()) {
      after = entry.entry();
      entries.push_back({{"entry", entry.entry()},
                         {"path", entry.path()},
                         {"removed_ns", entry.removed_ns()},
                         {"expires_ns", entry.expires_ns()},
                         {"size", entry.attributes().size()}});
      if (!session.json)
        fmt::print("{}  {:>10}  until {}  {}\n", shown_name(entry.entry()),
                   human_bytes(entry.attributes().size()), local_time(entry.expires_ns()),
                   shown_name(entry.path()));
    }
    if (!page.more() || page.entries().empty()) break;
  }
  if (session.json)
    print_json({{"directory", directory}, {"retention_ns", retention_ns}, {"entries", std::move(entries)}});
  return {};
}

Status restore_trash(Session& session, BlockingClient& client, const TrashArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  if (!arguments.to.empty()) KINTSUGI_TRY(check_remote(arguments.to));
  KINTSUGI_ASSIGN(const proto::RestoreTrashResponse answer,
                  client.run(client.async().restore_trash(arguments.path, arguments.entry, arguments.to)));
  if (session.json) {
    print_json({{"path", answer.path()}});
  } else {
    fmt::print("{}\n", answer.path().empty() ? "restored to where it was" : shown_name(answer.path()));
  }
  return {};
}

Status empty_trash(Session&, BlockingClient& client, const TrashArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  return client.run(client.async().empty_trash(arguments.path, arguments.entry));
}

}  // namespace

std::vector<Command> trash_commands() {
  const auto a = std::make_shared<TrashArguments>();
  const Option directory{"PATH", &a->path, "Directory that has the trash, or anything below it", kRequired};
  return {{.name = "trash",
           .help = "What was removed and can be restored for a time",
           .commands = {
               {.name = "set",
                .help = "Keep what is removed below a directory, in .trash there, for a time",
                .options = {{"PATH", &a->path, "Directory in the cluster", kRequired},
                            {"--retention", &a->retention,
                             "As in 2w, 7d, 12h, 30m; a number alone: days; 0: keep nothing", kRequired}},
                .check =
                    [a] {
                      const Result<Duration> parsed = parse_long_time(a->retention);
                      return parsed ? Status{} : parsed.error();
                    },
                .run = connected(a, set_trash)},
               {.name = "list",
                .help = "Show what is in the trash, where it was, and when it will be gone",
                .options = {directory},
                .prints_json = true,
                .run = connected(a, list_trash)},
               {.name = "restore",
                .help = "Move an entry of the trash to where it was; prints the path",
                .options = {directory,
                            {"ENTRY", &a->entry, "Entry, as `kintsugi trash list` shows it", kRequired},
                            {"--to", &a->to, "Path in the cluster; default: where it was"}},
                .prints_json = true,
                .run = connected(a, restore_trash)},
               {.name = "empty",
                .help = "Remove an entry for good, or everything",
                .options = {directory,
                            {"ENTRY", &a->entry, "Entry, as `kintsugi trash list` shows it; default: all"}},
                .run = connected(a, empty_trash)}}}};
}

}  // namespace kintsugi::cli
