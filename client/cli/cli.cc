#include "client/cli/cli.h"

#include <csignal>
#include <cstdlib>

#include "client/cli/commands.h"
#include "client/cli/parser.h"
#include "client/cli/session.h"
#include "common/base/version.h"
#include "common/log/log.h"

namespace kintsugi::cli {
namespace {

Command all_commands() {
  Command program{.name = "kintsugi",
                  .help = "Kintsugi: erasure-coded storage that repairs itself at the speed of the wire."};
  for (std::vector<Command> (*group)() :
       {cluster_commands, transfer_commands, namespace_commands, policy_commands, quota_commands,
        snapshot_commands, trash_commands, token_commands, key_commands, server_commands, fault_commands,
        trace_commands, inspect_commands, metadata_commands, repair_commands, plan_commands,
        bench_commands}) {
    for (Command& command : group())
      program.commands.push_back(std::move(command));
  }
  return program;
}

}  // namespace

int run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed pipe then fails like any other write
  log::set_level(std::getenv("KINTSUGI_DEBUG") != nullptr ? log::Level::kDebug : log::Level::kError);
  const Command program = all_commands();
  const Invocation invocation = parse(program, "kintsugi " + std::string(program_version()), argc, argv);
  if (invocation.command == nullptr) return invocation.exit_code;
  // Whatever connects looks for its token in the environment.
  if (!invocation.token_file.empty()) ::setenv(kTokenVariable, invocation.token_file.c_str(), 1);
  const bool says_ok = !invocation.command->prints_json;
  return Session(invocation.name, invocation.json, says_ok).run(invocation.command->run);
}

}  // namespace kintsugi::cli
