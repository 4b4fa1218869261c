// put, get, cat.
#include "client/cli/commands.h"
#include "client/cli/traced_command.h"
#include "client/cli/transfer.h"

namespace kintsugi::cli {
namespace {

struct TransferArguments {
  std::vector<std::string> paths;  ///< arguments of put and get: the sources, then the destination
  TransferOptions options;
};

std::vector<std::string> sources_of(const TransferArguments& arguments) {
  return {arguments.paths.begin(), arguments.paths.end() - 1};
}

Status run_put(Session& session, client::BlockingClient& client, const TransferArguments& arguments) {
  return put(session, client, sources_of(arguments), arguments.paths.back(), arguments.options);
}

Status run_get(Session& session, client::BlockingClient& client, const TransferArguments& arguments) {
  return get(session, client, sources_of(arguments), arguments.paths.back(), arguments.options);
}

Status run_cat(Session& session, client::BlockingClient& client, const TransferArguments& arguments) {
  return cat(session, client, arguments.paths);
}

}  // namespace

std::vector<Command> transfer_commands() {
  const auto a = std::make_shared<TransferArguments>();
  const Option replace{"--replace", &a->options.replace, "Replace files that exist, merge into directories"};
  return with_trace(
      {{.name = "put",
        .help = "Store files and directory trees",
        // One list, because a list followed by a single name is ambiguous to the parser.
        .options = {{.names = "SRC... DST",
                     .target = &a->paths,
                     .help =
                         "Local files or directories (- is standard input), then the path in the cluster; an "
                         "existing directory: into it. A symbolic link that is named is followed; one inside "
                         "a directory is left out and named, and the exit code is 1, as for pipes, sockets "
                         "and devices (a mount stores them)",
                     .need = kRequired,
                     .least_values = 2},
                    replace,
                    {"--policy", &a->options.policy, "Policy to use instead of the directory's"}},
        .prints_json = true,
        .run = connected(a, run_put)},
       {.name = "get",
        .help = "Fetch files and directory trees",
        .options = {{.names = "SRC... DST",
                     .target = &a->paths,
                     .help = "Paths in the cluster, then the local path; an existing directory: into it. "
                             "Several sources need one. Symbolic links, pipes, sockets and devices are left "
                             "out and named, and the exit code is 1",
                     .need = kRequired,
                     .least_values = 2},
                    replace},
        .prints_json = true,
        .run = connected(a, run_get)},
       {.name = "cat",
        .help = "Write files to standard output",
        .options = {{"PATH", &a->paths, "Files in the cluster", kRequired}},
        .prints_bytes = true,
        .run = connected(a, run_cat)}});
}

}  // namespace kintsugi::cli
