#include "client/cli/cli.h"

#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "client/cli/commands.h"
#include "common/log/log.h"

namespace kintsugi::cli {

int run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error like any other
  log::set_level(std::getenv("KINTSUGI_DEBUG") != nullptr ? log::Level::kDebug : log::Level::kError);

  Session session;
  CLI::App app{"Kintsugi: erasure-coded storage that repairs itself at the speed of the wire.", "kintsugi"};
  app.require_subcommand(1);
  app.fallthrough(false);
  add_cluster_commands(app, session);
  add_transfer_commands(app, session);
  add_namespace_commands(app, session);
  add_policy_commands(app, session);
  add_server_commands(app, session);
  add_inspect_commands(app, session);
  add_repair_commands(app, session);
  add_bench_commands(app, session);
  app.set_version_flag("--version", "kintsugi 0.2.0");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    const std::string first = argc > 1 ? argv[1] : "";
    const auto is_first = [&first](const CLI::App* command) { return command->get_name() == first; };
    if (!first.empty() && first[0] != '-' && app.get_subcommands(is_first).empty()) {
      std::fprintf(stderr, "kintsugi: %s: no such command (see --help)\n", first.c_str());
      return 2;
    }
    std::fprintf(stderr, "kintsugi: %s (see --help)\n", error.what());
    return 2;
  }
  return session.run();
}

}  // namespace kintsugi::cli
