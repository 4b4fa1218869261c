// kintsugi-simulate-faults: the simulated campaign of diagnosis. One seed is a cluster under load on virtual time, with one fault.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <malloc.h>

#include "tests/simulation/diagnosis/injection.h"
#include "tests/simulation/runtime/children.h"
#include "tests/simulation/runtime/seed_range.h"

namespace {

using namespace kintsugi::simulation;

constexpr const char* kUsage = R"(Usage: kintsugi-simulate-faults --seeds A..B [options]

Runs one cluster a seed on virtual time, with its monitor and four clients that use it, does one fault to it that the seed draws, and
writes down what the monitor says. The journal is judged by scripts/lab/diagnosis/simulated.py.

  --seeds A..B     the seeds to run, B included; --seeds A runs one
  --journal FILE   append one JSON object a seed; seeds that the file has are not run again
  --jobs J         seeds at a time (2)
  --explain        print every second what stands open in the cluster while the fault is watched
)";

constexpr unsigned kRealTimeLimit = 300;  ///< seconds for one seed

struct Arguments {
  uint64_t first = 0, last = 0, jobs = 2;
  bool has_seeds = false, explain = false;
  std::string journal;
};

/// Returns what is wrong with the arguments, or nothing.
std::string parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--explain") {
      arguments.explain = true;
      continue;
    }
    if (i + 1 >= argc) return fmt::format("{}: unknown, or its value is missing (see --help)", name);
    const std::string_view value = argv[++i];
    bool good = true;
    if (name == "--seeds") {
      good = arguments.has_seeds = parse_range(value, arguments.first, arguments.last);
    } else if (name == "--journal") {
      arguments.journal = value;
    } else if (name == "--jobs") {
      good = parse_number(value, arguments.jobs) && arguments.jobs > 0 && arguments.jobs <= 256;
    } else {
      return fmt::format("{}: no such option", name);
    }
    if (!good) return fmt::format("{} {}: not a value for it", name, value);
  }
  return arguments.has_seeds ? std::string() : "--seeds is missing";
}

/// Every line of a journal begins with {"seed": NUMBER. What could not be run is run again.
std::set<uint64_t> seeds_of(const std::string& path) {
  constexpr std::string_view kBegin = "{\"seed\": ";
  std::set<uint64_t> seeds;
  std::ifstream journal(path);
  std::string line;
  while (std::getline(journal, line)) {
    uint64_t seed = 0;
    if (!line.starts_with(kBegin) || line.back() != '}') continue;
    if (line.find("\"problem\": ") != std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(kBegin.size());
    if (parse_number(rest.substr(0, rest.find(',')), seed)) seeds.insert(seed);
  }
  return seeds;
}

std::string without_newlines(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

int run(const Arguments& arguments) {
  const std::set<uint64_t> done = seeds_of(arguments.journal);
  const auto began = std::chrono::steady_clock::now();
  uint64_t seed = arguments.first, ended = 0, failed = 0;
  Children(arguments.jobs, kRealTimeLimit)
      .run(
          [&]() -> std::optional<Children::Work> {
            while (seed <= arguments.last && done.contains(seed))
              ++seed;
            if (seed > arguments.last) return {};
            const uint64_t mine = seed++;
            return Children::Work{mine, [mine, explain = arguments.explain](const Children::Say& say) {
                                    say(run_injection(mine, explain));
                                    std::fflush(stdout);
                                  }};
          },
          [&](const Children::Ended& child) {
            std::string line = child.said;
            if (!child.problem.empty() || line.empty() || line.back() != '}') {
              ++failed;
              line = fmt::format(R"({{"seed": {}, "problem": "{}: {}"}})", child.number,
                                 child.slow ? "took too long" : child.problem, without_newlines(child.words));
            }
            if (!arguments.journal.empty()) std::ofstream(arguments.journal, std::ios::app) << line << '\n';
            if (arguments.journal.empty() || arguments.explain) fmt::print("{}\n", line);
            if (++ended % 100 == 0)
              fmt::print("{} seeds in {:.0f} s\n", ended,
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
            std::fflush(stdout);
          });
  fmt::print("{} seeds, {} of them could not be run\n", ended, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (argc == 1 || std::strcmp(argv[1], "--help") == 0) {
    fmt::print("{}", kUsage);
    return argc == 1 ? 2 : 0;
  }
  const std::string wrong = parse(argc, argv, arguments);
  if (!wrong.empty()) {
    fmt::print(stderr, "kintsugi-simulate-faults: {}\n", wrong);
    return 2;
  }
  // Memory that is given back and needed again costs a third of the time.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return run(arguments);
}
