/// The settings of a daemon, each said once: a key in its TOML file and a flag of its command line that overrides it.
///
/// ```cpp
/// Options options;  // holds the defaults
/// config::Settings settings{"kintsugi-chunkserver", "Stores chunks and serves them."};
/// settings.add("data_dirs", &options.data_dirs, "where chunks are kept, one for each disk");
/// settings.add("heartbeat_interval", &options.heartbeat_interval, "between two heartbeats", 10ms, 1min);
/// settings.add_bytes("repair.cache", &options.repair_cache_bytes, "memory for slices", 1 << 20, 1 << 30);
/// settings.parse_or_exit(argc, argv);
/// ```
///
/// `repair.cache` is the key `cache` of the section `[repair]`, and the flag `--repair-cache`.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/units.h"
#include "common/runtime/clock.h"
#include "common/runtime/network.h"

namespace kintsugi::config {

/// Keys are snake_case, dotted for sections, and unique (asserted). Variables are written by parse and live as long
/// as the settings; their values when added are the defaults. Ranges are inclusive. `--config FILE`, `--check` and `--help`
/// are always there.
class Settings {
 public:
  Settings(std::string program, std::string description);

  void add(std::string key, std::string* value, std::string help);
  void add(std::string key, runtime::Endpoint* value, std::string help);  ///< "host:port"
  /// The text is "host:port", or empty.
  void add(std::string key, std::optional<runtime::Endpoint>* value, std::string help);
  void add(std::string key, bool* value, std::string help);  ///< flags: --key, --key=false, --no-key
  void add(std::string key, double* value, std::string help, double min = 0,
           double max = std::numeric_limits<double>::max());
  void add(std::string key, Duration* value, std::string help, Duration min = Duration::zero(),
           Duration max = Duration::max());
  /// On the command line a list is --key a,b or --key a --key b.
  void add(std::string key, std::vector<std::string>* value, std::string help);
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  void add(std::string key, T* value, std::string help, T min = 0, T max = std::numeric_limits<T>::max()) {
    add_number(std::move(key), *value, std::move(help), min, max,
               [value](uint64_t v) { *value = static_cast<T>(v); });
  }
  void add_bytes(std::string key, uint64_t* value, std::string help, uint64_t min = 0,
                 uint64_t max = UINT64_MAX);
  /// Or "auto", which is none: the program finds a value.
  void add_bytes(std::string key, std::optional<uint64_t>* value, std::string help, uint64_t min = 0,
                 uint64_t max = UINT64_MAX);

  /// Makes parse fail when neither the file nor a flag sets this key.
  void require(std::string_view key);
  /// Says in the reference that this key counts when the cluster is made, and not at a later start.
  void counts_when_made(std::string_view key);

  /// kInvalidArgument with one line that names the flag, or the file and its line: unknown key, wrong type,
  /// out of range, missing, malformed. Variables may then be partly set.
  Status parse(int argc, const char* const* argv);
  /// Read the file only, for tests.
  Status load(const std::string& path);
  Status load_text(std::string_view toml, const std::string& name);

  const std::string& program() const { return program_; }

  /// Has reread() call `follow` when the value of this setting has changed; it may be called while the program runs.
  void follow(std::string_view key, std::function<void()> follow);
  /// Parses again. Settings that are followed have their new values then, all others those that they had. Returns a line on
  /// what was followed and what a restart would change; empty: nothing. After an error all is as it was.
  Result<std::string> reread(int argc, const char* const* argv);

  /// True after a parse that met --help and looked at nothing else.
  bool help_wanted() const { return help_wanted_; }
  std::string help() const;

  /// True after a parse that met --describe and looked at nothing else.
  bool description_wanted() const { return description_wanted_; }
  /// Every setting with its form, range and default as TOML: scripts/references.py makes docs/reference/settings.md of
  /// it.
  std::string describe() const;

  /// True after a parse that met --check: whoever parsed prints effective(), and does nothing else.
  bool check_wanted() const { return check_wanted_; }

  /// For main: --help, --describe and --check print and exit 0, an error prints "program: error" and exits 2.
  void parse_or_exit(int argc, const char* const* argv);

  /// Every key with its value in effect, one line each, as TOML: for the log and debug pages.
  std::string effective() const;

 private:
  enum class Kind { kString, kAddress, kBool, kNumber, kBytes, kDouble, kDuration, kList };
  struct Setting {
    std::string key, help;
    Kind kind{};
    /// Receives one text, or all elements of a list.
    std::function<Status(const std::vector<std::string>&)> set;
    std::function<std::string()> show;  ///< the value as TOML
    std::string range{};                ///< accepted values, for people; empty: all of the type
    std::string default_text{};
    bool required = false, given = false, when_made = false;
    std::function<void()> follow{};  ///< none: a change needs a restart
    std::string flag() const;
    /// What a value looks like, for people: "SIZE", "HOST:PORT".
    std::string_view form() const;
  };
  class CommandLine;
  class TomlFile;
  class Reread;

  void add_setting(Setting setting);
  void add_number(std::string key, uint64_t default_value, std::string help, uint64_t min, uint64_t max,
                  std::function<void(uint64_t)> store);
  Setting* find(std::string_view key);
  Status check_required() const;

  std::string program_, description_;
  std::vector<Setting> settings_;
  bool help_wanted_ = false, description_wanted_ = false, check_wanted_ = false;
};

}  // namespace kintsugi::config
