#include "tests/simulation/swarm/seed_runner.h"

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/simulation/runtime/children.h"
#include "tests/simulation/swarm/swarm.h"

namespace kintsugi::simulation {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// What a child says: one fact a line, its kind first.
std::string to_text(const Finding& finding, const Swarm& swarm) {
  std::string text;
  for (const auto& [name, count] : swarm.coverage().codes)
    text += fmt::format("C {} {}\n", count, name);
  for (const auto& [name, count] : swarm.coverage().acts)
    text += fmt::format("A {} {}\n", count, name);
  for (const auto& [name, count] : swarm.coverage().outcomes)
    text += fmt::format("O {} {}\n", count, name);
  for (const auto& [name, count] : swarm.coverage().states)
    text += fmt::format("S {} {}\n", count, one_line(name));
  text += fmt::format("R {}\n", swarm.coverage().longest_recovery);
  if (finding)
    for (const std::string& line : swarm.last_lines())
      text += fmt::format("L {}\n", one_line(line));
  text += fmt::format("F {} {}\n", static_cast<int>(finding.violation), one_line(finding.message));
  return text;
}

void read_text(const std::string& text, SeedReport& report, bool& complete) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.size() < 2) continue;
    std::istringstream rest(line.substr(2));
    uint64_t count = 0;
    std::string name;
    const auto counted = [&](std::map<std::string, uint64_t>& into) {
      rest >> count;
      std::getline(rest >> std::ws, name);
      into[name] += count;
    };
    switch (line[0]) {
      case 'C': counted(report.coverage.codes); break;
      case 'A': counted(report.coverage.acts); break;
      case 'O': counted(report.coverage.outcomes); break;
      case 'S': counted(report.coverage.states); break;
      case 'R': rest >> report.coverage.longest_recovery; break;
      case 'L': report.last_lines.push_back(line.substr(2)); break;
      case 'F': {
        int violation = 0;
        rest >> violation;
        std::getline(rest >> std::ws, name);
        report.finding = {static_cast<Violation>(violation), name};
        complete = true;
        break;
      }
      default: break;
    }
  }
}

void run_in_child(const SeedRun& run, const Children::Say& say) {
  const Schedule schedule = make_schedule(run.seed, run.steps);
  {
    Swarm swarm(schedule);
    const Finding finding =
        swarm.run([&](const Step& step) { return !run.kept || run.kept->contains(step.number); });
    const std::string text = to_text(finding, swarm);
    if (finding) {
      // What is in such a state need not come to an orderly end.
      say(text);
      ::_exit(0);
    }
    // The cluster is taken apart before the run counts as clean.
    say(text.substr(0, text.rfind("F ")));
  }
  say("F 0 \n");
}

SeedReport report_of(const SeedRun& run, const Children::Ended& child) {
  SeedReport report;
  report.run = run;
  bool complete = false;
  read_text(child.said, report, complete);
  if (child.slow) {
    report.finding = {Violation::kTooSlow, fmt::format("took more than {} s", SeedRunner::kRealTimeLimit)};
  } else if (!child.problem.empty()) {
    report.finding = {Violation::kCrashed, fmt::format("{}: {}", child.problem, one_line(child.words))};
  } else if (!complete) {
    report.finding = {Violation::kCrashed, "ended without a report: " + one_line(child.words)};
  }
  return report;
}

}  // namespace

void SeedRunner::run(const std::function<std::optional<SeedRun>()>& next,
                     const std::function<void(SeedReport)>& ended) {
  std::map<uint64_t, SeedRun> running;  // by the number of its child
  uint64_t number = 0;
  Children(jobs_, kRealTimeLimit)
      .run(
          [&]() -> std::optional<Children::Work> {
            const std::optional<SeedRun> run = next();
            if (!run) return {};
            running[++number] = *run;
            return Children::Work{number, [run = *run](const Children::Say& say) { run_in_child(run, say); }};
          },
          [&](const Children::Ended& child) {
            ended(report_of(running.extract(child.number).mapped(), child));
          });
}

SeedReport SeedRunner::run_one(const SeedRun& run) {
  std::optional<SeedRun> next = run;
  SeedReport report;
  this->run([&] { return std::exchange(next, std::nullopt); },
            [&](SeedReport ended) { report = std::move(ended); });
  return report;
}

SeedReport shrink(SeedRunner& runner, const SeedReport& found, size_t most_runs) {
  SeedReport best = found;
  std::vector<uint32_t> steps;
  for (uint32_t number = 0; number < found.run.steps; ++number)
    if (!found.run.kept || found.run.kept->contains(number)) steps.push_back(number);
  size_t part = std::max<size_t>(1, steps.size() / 2);
  while (most_runs > 0) {
    bool smaller = false;
    for (size_t at = 0; at < steps.size() && most_runs > 0;) {
      std::vector<uint32_t> fewer = steps;
      const auto begin = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(part, fewer.size() - at)));
      SeedRun run = found.run;
      run.kept = std::set<uint32_t>(fewer.begin(), fewer.end());
      --most_runs;
      SeedReport report = runner.run_one(run);
      if (report.finding.violation != found.finding.violation) {
        at += part;
        continue;
      }
      steps = std::move(fewer);
      best = std::move(report);
      smaller = true;
    }
    if (part == 1 && !smaller) break;
    if (!smaller || part > steps.size()) part = std::max<size_t>(1, part / 2);
  }
  return best;
}

}  // namespace kintsugi::simulation
