/// The command groups. Each adds its subcommands to the parser; a subcommand's callback tells the session
/// what to run.
#pragma once

#include "client/cli/session.h"

namespace CLI {
class App;
}

namespace kintsugi::cli {

void add_cluster_commands(CLI::App& app, Session& session);
void add_transfer_commands(CLI::App& app, Session& session);
void add_namespace_commands(CLI::App& app, Session& session);
void add_policy_commands(CLI::App& app, Session& session);
void add_server_commands(CLI::App& app, Session& session);
void add_inspect_commands(CLI::App& app, Session& session);
void add_repair_commands(CLI::App& app, Session& session);
void add_bench_commands(CLI::App& app, Session& session);
void add_degraded_read_bench(CLI::App& bench, Session& session);

}  // namespace kintsugi::cli
