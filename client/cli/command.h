/// A command of the command line, described as data. The command groups (commands.h) are tables of these; parser.cc
/// turns the one that a line names into a parser.
///
/// ```cpp
/// const auto a = std::make_shared<Arguments>();
/// Command{.name = "mv",
///         .help = "Rename a file or directory",
///         .options = {{"FROM", &a->path, "Path in the cluster", kRequired},
///                     {"TO", &a->to, "Its new path", kRequired},
///                     {"--replace", &a->replace, "Replace a file that exists"}},
///         .run = connected(a, move)};
/// ```
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace kintsugi::client {
class BlockingClient;
}

namespace kintsugi::cli {

class Session;

/// A number of bytes: "4096", "512KiB", "1g". All units are powers of 1024.
struct Bytes {
  uint64_t* bytes;
};

/// One of several values that have names.
struct Choice {
  std::vector<std::string> names;
  std::function<void(size_t)> choose;  ///< sets the variable to the value whose name has this index
};

template <class T>
Choice one_of(T* variable, std::vector<T> values, std::string_view (*name)(T)) {
  Choice choice;
  for (const T& value : values)
    choice.names.emplace_back(name(value));
  choice.choose = [variable, values = std::move(values)](size_t number) { *variable = values[number]; };
  return choice;
}

/// The variable that an option sets when it is given; its type says how the text is read. A bool is a flag, a vector
/// takes many values, a chunk is written STRIPE:INDEX, as in 81:3.
using Target =
    std::variant<bool*, std::string*, std::vector<std::string>*, uint32_t*, std::optional<uint32_t>*,
                 uint64_t*, double*, Bytes, Choice, ChunkId*, std::vector<ChunkId>*>;

enum Need { kOptional, kRequired };

struct Option {
  std::string names;  ///< "-r,--recursive"; names without dashes are positional: "PATH"
  Target target;
  std::string help;
  Need need = kOptional;
  uint64_t least = 0;  ///< smallest allowed number
  uint64_t most = std::numeric_limits<uint64_t>::max();
  int least_values = 1;       ///< fewest values that a vector option takes
  std::string excludes = {};  ///< name of an option that excludes this one
};

/// The work of a command. What fails is returned, or complained about (Session::complain) while the work continues.
using Run = std::function<Status(Session&)>;

struct Command {
  std::string name;
  std::string help;
  std::vector<Command> commands = {};  ///< subcommands; a group of commands has nothing else
  std::vector<Option> options = {};
  /// With --json it prints a document of its own; other commands print {"ok": true} (Session::run).
  bool prints_json = false;
  bool prints_bytes = false;  ///< the command prints the contents of files, and so has no --json
  /// Called when all options are set; an error means wrong usage.
  std::function<Status()> check = {};
  Run run = {};
};

/// Connects to the cluster that the environment names, then does `action`.
Run connected(std::function<Status(Session&, client::BlockingClient&)> action);

template <class Arguments>
Run connected(std::shared_ptr<Arguments> arguments,
              Status (*action)(Session&, client::BlockingClient&, const Arguments&)) {
  return connected([arguments, action](Session& session, client::BlockingClient& client) {
    return action(session, client, *arguments);
  });
}

}  // namespace kintsugi::cli
