// Configuration files.
#include "common/config/config.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

struct Options {
  std::string name = "default";
  bool verify = true;
  uint64_t slots = 4;
  uint16_t port = 7000;
  double share = 0.5, load = 1;
  Duration heartbeat_interval = 1s;
  Duration repair_delay = 15min;
  uint64_t cache_bytes = 64 << 20;
  std::vector<std::string> data_dirs = {"/data"};

  void add_to(config::Settings& settings) {
    settings.add("name", &name, "what it is called");
    settings.add("verify", &verify, "check every read");
    settings.add("slots", &slots, "repairs at a time", uint64_t{1}, uint64_t{64});
    settings.add("port", &port, "where to listen");
    settings.add("share", &share, "of the link", 0.0, 1.0);
    settings.add("load", &load, "of anything", -1e300, 1e300);
    settings.add("heartbeat_interval", &heartbeat_interval, "between heartbeats", 10ms, 1min);
    settings.add("repair.delay", &repair_delay, "before a repair");
    settings.add_bytes("repair.cache", &cache_bytes, "memory for slices", 1 << 20, 1 << 30);
    settings.add("data_dirs", &data_dirs, "where chunks are");
  }
  void check_ranges() const {
    require(slots >= 1 && slots <= 64, "a number is in its range");
    require(share >= 0 && share <= 1, "a fraction is in its range");
    require(load >= -1e300 && load <= 1e300, "a fraction is in its range");
    require(heartbeat_interval >= 10ms && heartbeat_interval <= 1min, "a duration is in its range");
    require(cache_bytes >= 1 << 20 && cache_bytes <= 1 << 30, "a size is in its range");
  }
};

std::vector<std::string> seeds() {
  return {
      "",
      "name = 'x'\nverify = false\nslots = 64\nport = 1\nshare = 1\nheartbeat_interval = '500ms'\n",
      "data_dirs = ['/a', \"/b\\t\\u00e9\"]\n[repair]\ndelay = '1.5h'\ncache = 2097152\n",
      "repair.cache = '8MiB' # a comment\nrepair.delay = \"0\"\nload = -1.25e-3\nshare = 0x1\n",
      "name = \"\"\"two\nlines\"\"\"\nload = inf\n",
      "load = -0.0\nshare = nan\n[repair]\n[repair]\n",
      "slot = 4\n",
      "data_dirs = [[1], {a = 1}, 1979-05-27T07:32:00Z]\n",
      "\"na\\nme\" = 1\n",
  };
}

void check(std::string_view input) {
  Options options;
  config::Settings settings{"fuzz", "Fuzzed."};
  options.add_to(settings);
  const Status status = settings.load_text(input, "fuzz.toml");
  options.check_ranges();
  if (!status.ok()) {
    require(status.code() == Code::kInvalidArgument, "what cannot be read is an invalid argument");
    require(status.message().starts_with("fuzz.toml:"), "an error names the file and its line");
    require_one_line(status.message());
    return;
  }
  const std::string effective = settings.effective();
  Options again;
  config::Settings reloaded{"fuzz", "Fuzzed."};
  again.add_to(reloaded);
  const Status same = reloaded.load_text(effective, "effective.toml");
  require(same.ok(), "what is in effect is TOML: " + same.to_string());
  require(again.name == options.name && again.data_dirs == options.data_dirs,
          "a text is printed as it was read");
  require(again.load == options.load && again.share == options.share, "a number is printed as it was read");
  require(reloaded.effective() == effective, "settings are printed as they were read");
}

const Registration registration{{"toml", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
