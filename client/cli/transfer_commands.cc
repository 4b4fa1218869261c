#include <CLI/CLI.hpp>

#include "client/cli/commands.h"
#include "client/cli/transfer.h"

namespace kintsugi::cli {
namespace {

struct Arguments {
  std::vector<std::string> sources;
  std::string source, destination;
  TransferOptions options;
};

template <class Action>
void on_run(CLI::App* command, Session& session, std::shared_ptr<Arguments> arguments, Action action) {
  command->callback([command, &session, arguments, action] {
    session.choose(command->get_name(), [&session, arguments, action]() -> Status {
      KINTSUGI_ASSIGN(client::BlockingClient * client, session.connect());
      Transfer transfer(session, *client, arguments->options);
      return action(transfer, *arguments);
    });
  });
}

}  // namespace

void add_transfer_commands(CLI::App& app, Session& session) {
  auto put_arguments = std::make_shared<Arguments>();
  CLI::App* put = app.add_subcommand("put", "Store files and directory trees");
  // One list, because a list followed by a single name is ambiguous to the parser.
  put->add_option(
         "SRC... DST", put_arguments->sources,
         "Local files or directories (- is standard input), then the path in the cluster; an existing "
         "directory: into it")
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  put->add_flag("--replace", put_arguments->options.replace,
                "Replace files that exist, merge into directories");
  put->add_option("--policy", put_arguments->options.policy, "Instead of the directory's policy");
  put->add_flag("--json", session.json, "Print one JSON document");
  on_run(put, session, put_arguments, [](Transfer& transfer, const Arguments& a) {
    const std::vector<std::string> sources(a.sources.begin(), a.sources.end() - 1);
    return transfer.put(sources, a.sources.back());
  });

  auto get_arguments = std::make_shared<Arguments>();
  CLI::App* get = app.add_subcommand("get", "Fetch a file or a directory tree");
  get->add_option("SRC", get_arguments->source, "Path in the cluster")->required();
  get->add_option("DST", get_arguments->destination, "Local path; an existing directory: into it")
      ->required();
  get->add_flag("--replace", get_arguments->options.replace,
                "Replace files that exist, merge into directories");
  get->add_flag("--json", session.json, "Print one JSON document");
  on_run(get, session, get_arguments,
         [](Transfer& transfer, const Arguments& a) { return transfer.get(a.source, a.destination); });

  auto cat_arguments = std::make_shared<Arguments>();
  CLI::App* cat = app.add_subcommand("cat", "Write files to standard output");
  cat->add_option("PATH", cat_arguments->sources, "Paths in the cluster")->required();
  on_run(cat, session, cat_arguments,
         [](Transfer& transfer, const Arguments& a) { return transfer.cat(a.sources); });
}

}  // namespace kintsugi::cli
