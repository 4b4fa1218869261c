#include "client/cli/parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/cli/describe.h"
#include "client/cli/overloaded.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "common/config/usage_error.h"

namespace kintsugi::cli {
namespace {

constexpr int kWrongUsage = 2;
constexpr std::string_view kJson = "--json";
constexpr std::string_view kTokenFile = "--token-file";
constexpr int kAnyNumber = CLI::detail::expected_max_vector_size;

/// What every command has in common, below the list of them.
constexpr const char* kFooter =
    "Environment:\n"
    "  KINTSUGI_META         where the metaserver is, as host:port\n"
    "  KINTSUGI_SECRET_FILE  the file with the cluster's secret, readable by its owner alone\n"
    "  KINTSUGI_TOKEN_FILE   the file with a token, in place of the secret (kintsugi token create)\n"
    "                        --token-file FILE, before or after a command's name, stands before it\n"
    "  KINTSUGI_MONITOR      where the monitor is, for diagnose while the metaserver does not answer\n"
    "  KINTSUGI_TLS_CERTIFICATE, KINTSUGI_TLS_KEY, KINTSUGI_TLS_AUTHORITY\n"
    "                        files that prove to other hosts who this is, as PEM\n"
    "  (the file `env` in a local cluster's directory sets them, . cluster/env; on hosts of one . "
    "/etc/kintsugi/env)\n"
    "\n"
    "Exit codes: 0 done, 1 failed or something is wrong, 2 wrong usage; 128 + N ended by signal N.\n"
    "Every command but cat takes --json (docs/reference/json.md).";

// ---- from texts to values

template <class T>
Status read_number(const Option& option, const std::string& text, T& number) {
  const char* end = text.data() + text.size();
  T read{};
  const auto [stop, error] = std::from_chars(text.data(), end, read);
  // Comparing as doubles is exact for the bounds there are: small numbers, and the largest of all.
  const bool in_range = static_cast<double>(read) >= static_cast<double>(option.least) &&
                        static_cast<double>(read) <= static_cast<double>(option.most);
  if (stop == end && error == std::errc() && in_range) {
    number = read;
    return {};
  }
  constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();
  if (error == std::errc::result_out_of_range && option.most == kUnbounded)
    return invalid(text + " is too large");
  return invalid(fmt::format("{} is not a {} from {} {}", text,
                             std::is_integral_v<T> ? "whole number" : "number", option.least,
                             option.most == kUnbounded ? "on" : fmt::format("to {}", option.most)));
}

/// The factor of "k", "KiB", "m" and so on, in any case; 0: there is no such unit.
double unit_of(std::string unit) {
  static constexpr std::string_view kLetters = "kmgtpe";
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.empty() || unit == "b") return 1;
  const size_t power = kLetters.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return 0;
  return std::exp2(10.0 * static_cast<double>(power + 1));
}

Status read_bytes(const std::string& text, uint64_t& bytes) {
  const Status refused = invalid(fmt::format("{} is not a size such as 4096, 512KiB or 1.5GiB", text));
  size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.'))
    ++digits;
  const char* end = text.data() + digits;
  size_t blanks = digits;
  while (blanks < text.size() && text[blanks] == ' ')
    ++blanks;
  const double unit = unit_of(text.substr(blanks));
  if (digits == 0 || unit == 0) return refused;
  uint64_t whole = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, whole);
  if (stop == end && error == std::errc() && static_cast<double>(whole) * unit < 0x1p64) {
    bytes = whole * static_cast<uint64_t>(unit);
    return {};
  }
  double number = 0;
  const auto read = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (read.ptr != end || read.ec != std::errc() || number * unit >= 0x1p64) return refused;
  bytes = static_cast<uint64_t>(number * unit);
  return {};
}

Status read_chunk(const std::string& text, ChunkId& chunk) {
  const char* end = text.data() + text.size();
  const auto stripe = std::from_chars(text.data(), end, chunk.stripe.value);
  if (stripe.ec == std::errc() && stripe.ptr != end && *stripe.ptr == ':') {
    const auto index = std::from_chars(stripe.ptr + 1, end, chunk.index);
    if (index.ec == std::errc() && index.ptr == end) return {};
  }
  return invalid(fmt::format("{}: a chunk is STRIPE:INDEX, as in 81:3", text));
}

Status choose(const Choice& choice, const std::string& text) {
  const auto found = std::ranges::find(choice.names, text);
  if (found == choice.names.end())
    return invalid(fmt::format("{} is not one of {}", text, fmt::join(choice.names, ", ")));
  choice.choose(static_cast<size_t>(found - choice.names.begin()));
  return {};
}

Status set_target(const Option& option, const std::vector<std::string>& texts) {
  const std::string& text = texts.front();
  const Overloaded set{
      [&](bool* flag) {
        *flag = true;
        return Status{};
      },
      [&](std::string* string) {
        *string = text;
        return Status{};
      },
      [&](std::vector<std::string>* strings) {
        *strings = texts;
        return Status{};
      },
      [&](std::optional<uint32_t>* number) { return read_number(option, text, number->emplace()); },
      [&](const Bytes& target) { return read_bytes(text, *target.bytes); },
      [&](const Choice& choice) { return choose(choice, text); },
      [&](ChunkId* chunk) { return read_chunk(text, *chunk); },
      [&](std::vector<ChunkId>* chunks) {
        for (const std::string& one : texts)
          KINTSUGI_TRY(read_chunk(one, chunks->emplace_back()));
        return Status{};
      },
      [&](auto* number) { return read_number(option, text, *number); }};
  return std::visit(set, option.target);
}

// ---- one command as a parser

/// Shows positionals by their names alone, since the usage line tells which are required, and options with what they
/// take.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return "";
    return " " + option->get_type_name() + (option->get_expected_max() == kAnyNumber ? " ..." : "");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const bool required = option->nonpositional() && option->get_required();
    return option->get_description() + (required ? " (required)" : "");
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    std::string name = make_option_name(option, true);
    // A name such as "SRC... DST" says itself that there may be many.
    if (option->get_expected_max() == kAnyNumber && name.find("...") == std::string::npos) name += "...";
    return option->get_required() ? name : "[" + name + "]";
  }
};

void add_option(CLI::App& app, const Option& option) {
  const auto set = [&option](const CLI::results_t& texts) {
    const Status status = set_target(option, texts);
    // The library takes errors as exceptions only; parse_command turns them back.
    if (!status.ok()) throw CLI::ValidationError(option.names, status.message());
    return true;
  };
  if (std::holds_alternative<bool*>(option.target)) {
    app.add_flag_callback(option.names, [set] { set({"true"}); }, option.help);
    return;
  }
  CLI::Option* added = app.add_option(option.names, CLI::callback_t(set), option.help);
  added->type_name(value_name(option))->required(option.need == kRequired);
  if (takes_many(option)) added->expected(option.least_values, kAnyNumber)->allow_extra_args();
}

/// One command or group as the help shows it.
void describe(CLI::App& app, const std::string& path, const Command& command) {
  app.name(path);
  app.description(command.help);
  app.formatter(std::make_shared<HelpFormatter>());
  for (const Command& inner : command.commands)
    app.add_subcommand(inner.name, inner.help);
}

/// The words after the program's name: of "kintsugi policy list", "policy list".
std::string words_of(const std::string& path) {
  const size_t space = path.find(' ');
  return space == std::string::npos ? "" : path.substr(space + 1);
}

bool asks_for_json(std::span<const char* const> words) {
  return std::ranges::any_of(words, [](std::string_view word) { return word == kJson; });
}

/// Prints the one line about wrong usage: "kintsugi: policy list: ... (see kintsugi policy list --help)".
Invocation complain(const std::string& path, std::string_view what, bool json) {
  const std::string program = path.substr(0, path.find(' ')), words = words_of(path);
  const std::string line = fmt::format("{}: {}{}{} (see {} --help)\n", program, words,
                                       words.empty() ? "" : ": ", shown_message(what), path);
  std::fputs(json ? (error_json(words, Code::kInvalidArgument, what) + "\n").c_str() : line.c_str(), stderr);
  return {.exit_code = kWrongUsage};
}

/// All commands in short: those that stand alone, then a line for each group.
std::string commands_in_short(const Command& program) {
  std::vector<std::string> alone;
  std::string groups;
  for (const Command& command : program.commands) {
    if (command.commands.empty()) alone.push_back(command.name);
    std::vector<std::string> inner;
    for (const Command& one : command.commands)
      inner.push_back(one.name);
    if (!inner.empty()) groups += fmt::format("  {:<10}{}\n", command.name, fmt::join(inner, ", "));
  }
  return fmt::format("  {}\n{}", fmt::join(alone, ", "), groups);
}

/// Returns a hint for a command that was given words it has no place for. Whoever gives one to a command with options only
/// probably means the first option that takes a text.
std::string advice(const Command& command, const std::vector<std::string>& extras) {
  const auto has_place = [](const Option& option) { return !option.names.starts_with('-'); };
  const auto takes_text = [](const Option& option) {
    return std::holds_alternative<std::string*>(option.target);
  };
  const auto meant = std::ranges::find_if(command.options, takes_text);
  const bool is_word = !extras.empty() && !extras.front().starts_with('-');
  if (!is_word || meant == command.options.end() || std::ranges::any_of(command.options, has_place))
    return "";
  return fmt::format("; maybe {} {} is meant", meant->names, extras.front());
}

/// Takes --token-file off the front of the words. Empty: it stands there and names nothing.
std::optional<std::string> take_token_file(std::span<const char* const>& words) {
  const std::string with_value = fmt::format("{}=", kTokenFile);
  const std::string_view first = words.empty() ? "" : words.front();
  const bool alone = first == kTokenFile;
  if (!alone && !first.starts_with(with_value)) return std::nullopt;
  const bool named = alone && words.size() > 1;
  std::string file = named ? words[1] : alone ? "" : std::string(first.substr(with_value.size()));
  words = words.subspan(named ? 2 : 1);
  return file;
}

/// Reads the words that follow a command's name. Only this command becomes a parser, so that the others cost nothing.
/// `token_file` was given before the name.
Invocation parse_command(const Command& command, const std::string& path, std::span<const char* const> words,
                         const std::optional<std::string>& token_file) {
  CLI::App app;
  describe(app, path, command);
  Invocation invocation;
  invocation.token_file = token_file.value_or("");
  const bool wants_json = asks_for_json(words);
  if (wants_json && command.prints_bytes)
    return complain(path, "it writes what files hold, and takes no --json", wants_json);
  Option json{std::string(kJson), &invocation.json,
              "Print one JSON document; errors are documents on stderr"};
  for (const Option& option : command.options)
    add_option(app, option);
  if (!command.prints_bytes) add_option(app, json);
  Option token{std::string(kTokenFile), &invocation.token_file, "File with a token, in place of the secret"};
  add_option(app, token);
  // An option that is excluded may come later in the table, so all are there before this.
  for (const Option& option : command.options) {
    if (!option.excludes.empty()) app.get_option(option.names)->excludes(app.get_option(option.excludes));
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success&) {
    std::fputs(app.help().c_str(), stdout);
    return {};
  } catch (const CLI::ExtrasError& error) {
    return complain(path, config::usage_error(app, error) + advice(command, app.remaining()), wants_json);
  } catch (const CLI::ParseError& error) {
    return complain(path, config::usage_error(app, error), wants_json);
  }
  const bool names_token = token_file || app.get_option(std::string(kTokenFile))->count() > 0;
  if (names_token && invocation.token_file.empty())
    return complain(path, fmt::format("{}: no file is named", kTokenFile), wants_json);
  if (const Status status = command.check ? command.check() : Status{}; !status.ok())
    return complain(path, status.message(), wants_json);
  invocation.command = &command;
  invocation.name = words_of(path);
  return invocation;
}

}  // namespace

Invocation parse(const Command& program, const std::string& version, int argc, const char* const* argv) {
  std::span<const char* const> words(argv + 1, static_cast<size_t>(argc > 0 ? argc - 1 : 0));
  const Command* group = &program;
  std::string path = program.name;
  const std::optional<std::string> token_file = take_token_file(words);
  while (!group->commands.empty()) {
    const std::string word = words.empty() ? "" : words.front();
    if (word == "-h" || word == "--help" || (word == "--version" && group == &program)) {
      CLI::App app;
      describe(app, path, *group);
      app.require_subcommand(1);
      if (group == &program) {
        app.set_version_flag("--version", version);
        app.footer(kFooter);
      }
      std::fputs(word == "--version" ? (version + "\n").c_str() : app.help().c_str(), stdout);
      return {};
    }
    if (word == "--describe" && group == &program) {
      Json described = describe(program);
      described["notes"] = kFooter;
      print_json(described);
      return {};
    }
    const auto found = std::ranges::find_if(group->commands,
                                            [&word](const Command& command) { return command.name == word; });
    if (word.empty() && token_file && token_file->empty())
      return complain(path, fmt::format("{}: no file is named", kTokenFile), false);
    if (word.empty() && group == &program) {
      const Invocation wrong = complain(path, "a command is missing", false);
      std::fputs(commands_in_short(program).c_str(), stderr);
      return wrong;
    }
    if (found == group->commands.end()) {
      std::vector<std::string> names;
      for (const Command& command : group->commands)
        names.push_back(command.name);
      const bool json = asks_for_json(words);
      if (word.empty())
        return complain(path, fmt::format("a command is missing, one of: {}", fmt::join(names, ", ")), json);
      return complain(path, fmt::format("{}: no such {}", word, word.starts_with('-') ? "option" : "command"),
                      json);
    }
    path += " " + word;
    group = &*found;
    words = words.subspan(1);
  }
  return parse_command(*group, path, words, token_file);
}

}  // namespace kintsugi::cli
