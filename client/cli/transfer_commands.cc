// put, get, cat.
#include "client/cli/commands.h"
#include "client/cli/transfer.h"

namespace kintsugi::cli {
namespace {

struct Arguments {
  std::vector<std::string> paths;  ///< arguments of put: the sources, then the destination
  std::string source, destination;
  TransferOptions options;
};

Status run_put(Session& session, client::BlockingClient& client, const Arguments& arguments) {
  const std::vector<std::string> sources(arguments.paths.begin(), arguments.paths.end() - 1);
  return put(session, client, sources, arguments.paths.back(), arguments.options);
}

Status run_get(Session& session, client::BlockingClient& client, const Arguments& arguments) {
  return get(session, client, arguments.source, arguments.destination, arguments.options);
}

Status run_cat(Session& session, client::BlockingClient& client, const Arguments& arguments) {
  return cat(session, client, arguments.paths);
}

}  // namespace

std::vector<Command> transfer_commands() {
  const auto a = std::make_shared<Arguments>();
  const Option replace{"--replace", &a->options.replace, "Replace files that exist, merge into directories"};
  return {
      {.name = "put",
       .help = "Store files and directory trees",
       // One list, because a list followed by a single name is ambiguous to the parser.
       .options = {{.names = "SRC... DST",
                    .target = &a->paths,
                    .help =
                        "Local files or directories (- is standard input), then the path in the cluster; an "
                        "existing directory: into it",
                    .need = kRequired,
                    .least_values = 2},
                   replace,
                   {"--policy", &a->options.policy, "Policy to use instead of the directory's"}},
       .prints_json = true,
       .run = connected(a, run_put)},
      {.name = "get",
       .help = "Fetch a file or a directory tree",
       .options = {{"SRC", &a->source, "Path in the cluster", kRequired},
                   {"DST", &a->destination, "Local path; an existing directory: into it", kRequired},
                   replace},
       .prints_json = true,
       .run = connected(a, run_get)},
      {.name = "cat",
       .help = "Write files to standard output",
       .options = {{"PATH", &a->paths, "Files in the cluster", kRequired}},
       .prints_bytes = true,
       .run = connected(a, run_cat)}};
}

}  // namespace kintsugi::cli
