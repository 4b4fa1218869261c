/// Finds the command that a command line means. The only part that knows the parsing library.
#pragma once

#include <string>

#include "client/cli/command.h"

namespace kintsugi::cli {

/// The command that a command line asks for.
struct Invocation {
  const Command* command = nullptr;  ///< null: there is nothing to run, because help or an error was printed
  std::string name;                  ///< words of the command, like "policy list"
  bool json = false;                 ///< --json was given
  std::string token_file;            ///< --token-file; empty: it was not given
  /// Only without a command: 0, or 2 after a line on stderr that says what is wrong.
  int exit_code = 0;
};

/// Follows the line's first words through the groups below `program`, whose name is that of the program. The targets
/// of the command's options are set on return.
Invocation parse(const Command& program, const std::string& version, int argc, const char* const* argv);

}  // namespace kintsugi::cli
