#include "common/config/config.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "common/base/assert.h"
#include "common/config/command_line.h"
#include "common/config/reread.h"
#include "common/config/toml_file.h"

namespace kintsugi::config {
namespace {

constexpr std::string_view kAuto = "auto";

template <class T, class Format>
Status check_range(T value, T min, T max, Format format) {
  if (value >= min && value <= max) return {};
  return invalid(fmt::format("{} is out of range: {} to {}", format(value), format(min), format(max)));
}

/// The accepted values in words; empty when the bounds exclude nothing that the form allows.
template <class T, class Format>
std::string range_text(T min, T max, Format format) {
  const bool bounded_below = min > T{}, bounded_above = max < std::numeric_limits<T>::max();
  if (bounded_below && bounded_above) return fmt::format("{} to {}", format(min), format(max));
  if (bounded_below) return fmt::format("{} or more", format(min));
  return bounded_above ? fmt::format("at most {}", format(max)) : "";
}

std::string range_text(Duration min, Duration max) {
  if (max == Duration::max()) return min == Duration::zero() ? "" : format_duration(min) + " or more";
  return fmt::format("{} to {}", format_duration(min), format_duration(max));
}

Result<uint64_t> parse_bytes_in_range(std::string_view text, uint64_t min, uint64_t max) {
  KINTSUGI_ASSIGN(const uint64_t bytes, parse_bytes(text));
  KINTSUGI_TRY(check_range(bytes, min, max, format_bytes));
  return bytes;
}

template <class T>
Status parse_number(std::string_view text, std::string_view expected, T& out) {
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc{} && stop == text.data() + text.size()) return {};
  return invalid(fmt::format("expected {}, got \"{}\"", expected, text));
}

/// A TOML string of one line.
std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string bytes_or_auto(uint64_t min, uint64_t max) {
  const std::string range = range_text(min, max, format_bytes);
  return range.empty() ? "" : range + ", or auto";
}

std::string plain(uint64_t value) {
  return fmt::format("{}", value);
}

}  // namespace

Settings::Settings(std::string program, std::string description)
    : program_(std::move(program)), description_(std::move(description)) {}

std::string_view Settings::Setting::form() const {
  switch (kind) {
    case Kind::kString: return "TEXT";
    case Kind::kAddress: return "HOST:PORT";
    case Kind::kBool: return "true|false";
    case Kind::kNumber: return "N";
    case Kind::kBytes: return "SIZE";
    case Kind::kDouble: return "X";
    case Kind::kDuration: return "DURATION";
    case Kind::kList: return "TEXT,...";
  }
  KINTSUGI_ASSERT(false);
  return "";
}

std::string Settings::Setting::flag() const {
  std::string out = "--" + key;
  std::replace_if(out.begin(), out.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return out;
}

void Settings::add_setting(Setting setting) {
  KINTSUGI_ASSERT(find(setting.key) == nullptr && setting.key != "config" && setting.key != "help");
  setting.default_text = setting.show();
  settings_.push_back(std::move(setting));
}

Settings::Setting* Settings::find(std::string_view key) {
  auto found =
      std::find_if(settings_.begin(), settings_.end(), [&](const Setting& s) { return s.key == key; });
  return found == settings_.end() ? nullptr : &*found;
}

void Settings::add(std::string key, std::string* value, std::string help) {
  auto set = [value](const std::vector<std::string>& texts) {
    *value = texts.front();
    return Status{};
  };
  add_setting({std::move(key), std::move(help), Kind::kString, set, [value] { return toml_string(*value); }});
}

void Settings::add(std::string key, runtime::Endpoint* value, std::string help) {
  auto set = [value](const std::vector<std::string>& texts) -> Status {
    KINTSUGI_ASSIGN(*value, runtime::Endpoint::parse(texts.front()));
    return {};
  };
  auto show = [value] { return toml_string(value->host.empty() ? "" : value->to_string()); };
  add_setting({std::move(key), std::move(help), Kind::kAddress, set, show});
}

void Settings::add(std::string key, std::optional<runtime::Endpoint>* value, std::string help) {
  auto set = [value](const std::vector<std::string>& texts) -> Status {
    value->reset();
    if (texts.front().empty()) return {};
    KINTSUGI_ASSIGN(*value, runtime::Endpoint::parse(texts.front()));
    return {};
  };
  auto show = [value] { return toml_string(*value ? (*value)->to_string() : ""); };
  add_setting({std::move(key), std::move(help), Kind::kAddress, set, show});
}

void Settings::add(std::string key, bool* value, std::string help) {
  auto set = [value](const std::vector<std::string>& texts) {
    if (texts.front() != "true" && texts.front() != "false") {
      return invalid(fmt::format("expected true or false, got \"{}\"", texts.front()));
    }
    *value = texts.front() == "true";
    return Status{};
  };
  add_setting(
      {std::move(key), std::move(help), Kind::kBool, set, [value] { return *value ? "true" : "false"; }});
}

void Settings::add(std::string key, double* value, std::string help, double min, double max) {
  auto set = [=](const std::vector<std::string>& texts) -> Status {
    double parsed = 0;
    KINTSUGI_TRY(parse_number(texts.front(), "a number", parsed));
    KINTSUGI_TRY(check_range(parsed, min, max, [](double v) { return fmt::format("{}", v); }));
    *value = parsed + 0.0;  // -0 becomes 0: TOML has no such whole number
    return {};
  };
  add_setting({std::move(key), std::move(help), Kind::kDouble, set,
               [value] { return fmt::format("{}", *value); },
               range_text(min, max, [](double v) { return fmt::format("{}", v); })});
}

void Settings::add(std::string key, Duration* value, std::string help, Duration min, Duration max) {
  auto set = [=](const std::vector<std::string>& texts) -> Status {
    KINTSUGI_ASSIGN(Duration parsed, parse_duration(texts.front()));
    KINTSUGI_TRY(check_range(parsed, min, max, format_duration));
    *value = parsed;
    return {};
  };
  auto show = [value] { return toml_string(format_duration(*value)); };
  add_setting({std::move(key), std::move(help), Kind::kDuration, set, show, range_text(min, max)});
}

void Settings::add(std::string key, std::vector<std::string>* value, std::string help) {
  auto set = [value](const std::vector<std::string>& texts) {
    *value = texts;
    return Status{};
  };
  auto show = [value] {
    std::string out;
    for (const std::string& item : *value)
      out += (out.empty() ? "" : ", ") + toml_string(item);
    return "[" + out + "]";
  };
  add_setting({std::move(key), std::move(help), Kind::kList, set, show});
}

void Settings::add_number(std::string key, uint64_t default_value, std::string help, uint64_t min,
                          uint64_t max, std::function<void(uint64_t)> store) {
  auto current = std::make_shared<uint64_t>(default_value);
  auto set = [=, store = std::move(store)](const std::vector<std::string>& texts) -> Status {
    uint64_t parsed = 0;
    KINTSUGI_TRY(parse_number(texts.front(), "a whole number", parsed));
    KINTSUGI_TRY(check_range(parsed, min, max, plain));
    *current = parsed;
    store(parsed);
    return {};
  };
  add_setting({std::move(key), std::move(help), Kind::kNumber, set, [current] { return plain(*current); },
               range_text(min, max, plain)});
}

void Settings::add_bytes(std::string key, uint64_t* value, std::string help, uint64_t min, uint64_t max) {
  auto set = [=](const std::vector<std::string>& texts) -> Status {
    KINTSUGI_ASSIGN(*value, parse_bytes_in_range(texts.front(), min, max));
    return {};
  };
  add_setting({std::move(key), std::move(help), Kind::kBytes, set,
               [value] { return toml_string(format_bytes(*value)); }, range_text(min, max, format_bytes)});
}

void Settings::add_bytes(std::string key, std::optional<uint64_t>* value, std::string help, uint64_t min,
                         uint64_t max) {
  auto set = [=](const std::vector<std::string>& texts) -> Status {
    value->reset();
    if (texts.front() == kAuto) return {};
    KINTSUGI_ASSIGN(*value, parse_bytes_in_range(texts.front(), min, max));
    return {};
  };
  add_setting({std::move(key), std::move(help), Kind::kBytes, set,
               [value] { return toml_string(*value ? format_bytes(**value) : std::string(kAuto)); },
               bytes_or_auto(min, max)});
}

void Settings::require(std::string_view key) {
  Setting* setting = find(key);
  KINTSUGI_ASSERT(setting != nullptr);
  setting->required = true;
}

void Settings::counts_when_made(std::string_view key) {
  Setting* setting = find(key);
  KINTSUGI_ASSERT(setting != nullptr);
  setting->when_made = true;
}

Status Settings::check_required() const {
  std::vector<std::string> keys, flags;
  for (const Setting& setting : settings_) {
    if (!setting.required || setting.given) continue;
    keys.push_back(setting.key);
    flags.push_back(setting.flag());
  }
  if (keys.empty()) return {};
  const bool one = keys.size() == 1;
  return invalid(fmt::format("{} {} not set: give {} in the config file (--config FILE) or as {}",
                             fmt::join(keys, ", "), one ? "is" : "are", one ? "it" : "them",
                             fmt::join(flags, ", ")));
}

void Settings::follow(std::string_view key, std::function<void()> follow) {
  find(key)->follow = std::move(follow);
}

Result<std::string> Settings::reread(int argc, const char* const* argv) {
  return Reread(*this).run(argc, argv);
}

Status Settings::load(const std::string& path) {
  return TomlFile(*this).load(path);
}

Status Settings::load_text(std::string_view toml, const std::string& name) {
  return TomlFile(*this).apply(toml, name);
}

Status Settings::parse(int argc, const char* const* argv) {
  CommandLine line(*this);
  KINTSUGI_TRY(line.read(argc, argv));
  help_wanted_ = line.help_wanted();
  description_wanted_ = line.description_wanted();
  if (help_wanted_ || description_wanted_) return {};
  if (!line.config_file().empty()) KINTSUGI_TRY(load(line.config_file()));
  KINTSUGI_TRY(line.apply());
  check_wanted_ = line.check_wanted();
  return check_required();
}

std::string Settings::help() const {
  return CommandLine(const_cast<Settings&>(*this)).help();
}

void Settings::parse_or_exit(int argc, const char* const* argv) {
  Status status = parse(argc, argv);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), status.message().c_str());
    std::exit(2);
  }
  if (!help_wanted_ && !description_wanted_ && !check_wanted_) return;
  std::fputs((help_wanted_ ? help() : description_wanted_ ? describe() : effective()).c_str(), stdout);
  std::exit(0);
}

std::string Settings::describe() const {
  std::string out =
      fmt::format("program = {}\ndescription = {}\n", toml_string(program_), toml_string(description_));
  for (const Setting& setting : settings_) {
    out +=
        fmt::format("\n[[settings]]\nkey = {}\nflag = {}\nform = {}\nrange = {}\n", toml_string(setting.key),
                    toml_string(setting.flag()), toml_string(setting.form()), toml_string(setting.range));
    out += fmt::format("default = {}\nrequired = {}\nwhen_made = {}\nfollowed = {}\nhelp = {}\n",
                       setting.default_text, setting.required, setting.when_made, setting.follow != nullptr,
                       toml_string(setting.help));
  }
  return out;
}

std::string Settings::effective() const {
  std::string out;
  for (const Setting& setting : settings_)
    out += fmt::format("{} = {}\n", setting.key, setting.show());
  return out;
}

}  // namespace kintsugi::config
