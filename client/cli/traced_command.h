/// The option --trace: a command that records itself and the servers that its requests reach.
#pragma once

#include <vector>

#include "client/cli/command.h"

namespace kintsugi::cli {

/// Gives each of these commands the option. What is recorded lies in one directory when the command has ended, however it ended, unless
/// it was killed: then the recordings of servers end by themselves (tracing::kOwnRecordingLimit).
std::vector<Command> with_trace(std::vector<Command> commands);

}  // namespace kintsugi::cli
