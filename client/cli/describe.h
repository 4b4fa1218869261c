/// The tables of commands as a document, from which scripts/references.py makes docs/reference/commands.md, the manual
/// page kintsugi(1) and the completions of shells.
#pragma once

#include <string>

#include "client/cli/command.h"
#include "client/cli/json.h"

namespace kintsugi::cli {

/// What the value of an option looks like, for people: "SIZE", "N"; empty for a flag.
std::string value_name(const Option& option);

/// True for an option that takes several values.
bool takes_many(const Option& option);

/// A command or group: `name`, `help`, and its `commands`, or its `options` and whether it takes --json.
Json describe(const Command& command);

}  // namespace kintsugi::cli
