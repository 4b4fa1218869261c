// kintsugi-simulate: many seeds, each a cluster of its own on virtual time, under load and faults that the seed draws.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/simulation/runtime/seed_range.h"
#include "tests/simulation/swarm/schedule.h"
#include "tests/simulation/swarm/seed_runner.h"

namespace {

using namespace kintsugi::simulation;

constexpr const char* kUsage = R"(Usage: kintsugi-simulate --seeds A..B [options]

Runs the real metaserver, chunkservers and client of whole clusters on virtual time, one cluster a seed: its size, code,
load and faults are drawn from the seed. After every step all that was acknowledged must be safe, and once faults end
everything must become well again. Prints each seed that fails, cut down to few steps, with the command that replays it.

  --seeds A..B     the seeds to run, B included; --seeds A runs one
  --steps N        steps of each seed (120)
  --minutes M      begin no more seeds after so many minutes
  --jobs J         seeds at a time (2)
  --keep LIST      only these steps of one seed, as a failure prints them: 3,7..12
  --no-shrink      do not look for the shortest run that fails
  --stop-at-first  end after the first failure
  --journal FILE   append what was found; seeds that the file calls done are not run again
  --verbose        also print what was reached, and how often

KINTSUGI_SIM_LOG=1 prints the logs of all daemons with virtual times. Exit status: 0 all clean, 1 a seed failed, 2 a wrong
argument.
)";

struct Arguments {
  uint64_t first = 0, last = 0;
  bool has_seeds = false;
  size_t steps = 120;
  double minutes = 0;
  size_t jobs = 2;
  std::optional<std::set<uint32_t>> kept;
  bool shrink = true, stop_at_first = false, verbose = false;
  std::string journal;
};

bool parse_list(std::string_view text, std::set<uint32_t>& list) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    uint64_t first = 0, last = 0;
    if (!parse_range(text.substr(0, comma), first, last) || last > 1'000'000) return false;
    for (uint64_t number = first; number <= last; ++number)
      list.insert(static_cast<uint32_t>(number));
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
  return true;
}

std::string in_short(const std::set<uint32_t>& list) {
  std::string text;
  for (auto it = list.begin(); it != list.end();) {
    const uint32_t first = *it;
    uint32_t last = first;
    while (++it != list.end() && *it == last + 1)
      last = *it;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}..{}", first, last);
  }
  return text;
}

/// Returns what is wrong with the arguments, or nothing.
std::string parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--no-shrink") {
      arguments.shrink = false;
    } else if (name == "--stop-at-first") {
      arguments.stop_at_first = true;
    } else if (name == "--verbose") {
      arguments.verbose = true;
    } else {
      if (i + 1 >= argc) return fmt::format("{}: unknown, or its value is missing (see --help)", name);
      const std::string_view value = argv[++i];
      uint64_t number = 0;
      const bool is_number = parse_number(value, number) && number > 0 && number <= 1'000'000;
      bool good = true;
      if (name == "--seeds") {
        good = arguments.has_seeds = parse_range(value, arguments.first, arguments.last);
      } else if (name == "--keep") {
        good = parse_list(value, arguments.kept.emplace());
      } else if (name == "--journal") {
        arguments.journal = value;
      } else if (name == "--steps") {
        good = is_number;
        arguments.steps = number;
      } else if (name == "--minutes") {
        good = is_number;
        arguments.minutes = static_cast<double>(number);
      } else if (name == "--jobs") {
        good = is_number && number <= 256;
        arguments.jobs = number;
      } else {
        return fmt::format("{}: no such option", name);
      }
      if (!good) return fmt::format("{} {}: not a value for it", name, value);
    }
  }
  if (!arguments.has_seeds) return "--seeds is missing";
  return {};
}

class Campaign {
 public:
  explicit Campaign(Arguments arguments) : arguments_(std::move(arguments)), runner_(arguments_.jobs) {
    read_journal();
  }

  int run() {
    runner_.run([this] { return next(); }, [this](SeedReport report) { take(std::move(report)); });
    for (const SeedReport& report : failed_)
      tell(report);
    const double seconds = elapsed();
    fmt::print("{} seeds of {} steps in {:.0f} s: {} failed; longest recovery {:.1f} s of virtual time\n",
               ended_, arguments_.steps, seconds, failed_.size(), coverage_.longest_recovery);
    if (arguments_.verbose) print_coverage();
    return failed_.empty() ? 0 : 1;
  }

 private:
  std::optional<SeedRun> next() {
    if (arguments_.minutes > 0 && elapsed() > arguments_.minutes * 60) return {};
    if (arguments_.stop_at_first && !failed_.empty()) return {};
    while (next_ <= arguments_.last - arguments_.first && done_.contains(arguments_.first + next_))
      ++next_;
    if (next_ > arguments_.last - arguments_.first) return {};
    return SeedRun{arguments_.first + next_++, arguments_.steps, arguments_.kept};
  }

  void take(SeedReport report) {
    ++ended_;
    coverage_.merge(report.coverage);
    if (report.finding) {
      write_journal(fmt::format("{} {}: {}", report.run.seed, name_of(report.finding.violation),
                                report.finding.message));
      fmt::print("seed {} failed: {}: {}\n", report.run.seed, name_of(report.finding.violation),
                 report.finding.message);
      failed_.push_back(std::move(report));
    } else {
      write_journal(fmt::format("{} clean", report.run.seed));
    }
    if (ended_ % 500 == 0) fmt::print("{} seeds, {} failed, {:.0f} s\n", ended_, failed_.size(), elapsed());
    std::fflush(stdout);
  }

  void tell(const SeedReport& report) {
    constexpr size_t kMostRuns = 120;
    const SeedReport shortest =
        arguments_.shrink ? kintsugi::simulation::shrink(runner_, report, kMostRuns) : report;
    const Schedule schedule = make_schedule(report.run.seed, arguments_.steps);
    fmt::print("\nseed {}: {}: {}\n  {}\n", report.run.seed, name_of(shortest.finding.violation),
               shortest.finding.message, in_words(schedule));
    if (shortest.run.kept) {
      for (const Step& step : schedule.steps)
        if (shortest.run.kept->contains(step.number))
          fmt::print("  step {:3}: {}, then {} ms\n", step.number, name_of(step.act),
                     std::chrono::duration_cast<std::chrono::milliseconds>(step.pause).count());
    }
    for (const std::string& line : shortest.last_lines)
      fmt::print("  {}\n", line);
    fmt::print("  replay: kintsugi-simulate --seeds {} --steps {}{}\n", report.run.seed, arguments_.steps,
               shortest.run.kept ? " --no-shrink --keep " + in_short(*shortest.run.kept) : std::string());
    std::fflush(stdout);
  }

  void print_coverage() const {
    const auto print = [](const char* what, const std::map<std::string, uint64_t>& counts) {
      fmt::print("\n{}\n", what);
      for (const auto& [name, count] : counts)
        fmt::print("{:10} {}\n", count, name);
    };
    print("Codes of clusters and directories:", coverage_.codes);
    print("Acts that had an effect:", coverage_.acts);
    print("Outcomes of operations:", coverage_.outcomes);
    print("States that logs told of:", coverage_.states);
  }

  /// A journal has one line a seed: its number, then "clean" or what was found. Failed seeds are run again.
  void read_journal() {
    std::ifstream journal(arguments_.journal);
    uint64_t seed = 0;
    std::string outcome, line;
    while (std::getline(journal, line)) {
      const size_t space = line.find(' ');
      if (parse_number(line.substr(0, space), seed) && line.substr(space + 1) == "clean") done_.insert(seed);
    }
  }
  void write_journal(const std::string& line) {
    if (!arguments_.journal.empty()) std::ofstream(arguments_.journal, std::ios::app) << line << '\n';
  }

  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

  const Arguments arguments_;
  SeedRunner runner_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  uint64_t next_ = 0;
  uint64_t ended_ = 0;
  std::set<uint64_t> done_;
  std::vector<SeedReport> failed_;
  Coverage coverage_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (argc == 1 || std::strcmp(argv[1], "--help") == 0) {
    fmt::print("{}", kUsage);
    return argc == 1 ? 2 : 0;
  }
  const std::string wrong = parse(argc, argv, arguments);
  if (!wrong.empty()) {
    fmt::print(stderr, "kintsugi-simulate: {}\n", wrong);
    return 2;
  }
  return Campaign(std::move(arguments)).run();
}
