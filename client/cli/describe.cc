#include "client/cli/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/cli/overloaded.h"

namespace kintsugi::cli {
namespace {

Json describe_option(const Option& option) {
  Json described{{"names", option.names},
                 {"value", value_name(option)},
                 {"help", option.help},
                 {"required", option.need == kRequired},
                 {"many", takes_many(option)}};
  if (!option.excludes.empty()) described["excludes"] = option.excludes;
  return described;
}

}  // namespace

std::string value_name(const Option& option) {
  using Name = std::string;
  const Overloaded name{[](bool*) { return Name(); },
                        [](std::string*) { return Name("TEXT"); },
                        [](std::vector<std::string>*) { return Name("TEXT"); },
                        [](const Bytes&) { return Name("SIZE"); },
                        [](const Choice& choice) { return fmt::format("{}", fmt::join(choice.names, "|")); },
                        [](ChunkId*) { return Name("STRIPE:INDEX"); },
                        [](std::vector<ChunkId>*) { return Name("STRIPE:INDEX"); },
                        [](auto*) { return Name("N"); }};
  return std::visit(name, option.target);
}

bool takes_many(const Option& option) {
  return std::holds_alternative<std::vector<std::string>*>(option.target) ||
         std::holds_alternative<std::vector<ChunkId>*>(option.target);
}

Json describe(const Command& command) {
  Json described{{"name", command.name}, {"help", command.help}};
  if (!command.commands.empty()) {
    Json commands = Json::array();
    for (const Command& inner : command.commands)
      commands.push_back(describe(inner));
    described["commands"] = std::move(commands);
    return described;
  }
  Json options = Json::array();
  for (const Option& option : command.options)
    options.push_back(describe_option(option));
  described["options"] = std::move(options);
  described["json"] = !command.prints_bytes;
  return described;
}

}  // namespace kintsugi::cli
