#include "tests/simulation/swarm/seed_runner.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
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

void write_all(int to, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(to, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<size_t>(written);
  }
}

[[noreturn]] void run_in_child(const SeedRun& run, int to) {
  ::alarm(SeedRunner::kRealTimeLimit);
  const Schedule schedule = make_schedule(run.seed, run.steps);
  {
    Swarm swarm(schedule);
    const Finding finding =
        swarm.run([&](const Step& step) { return !run.kept || run.kept->contains(step.number); });
    const std::string text = to_text(finding, swarm);
    if (finding) {
      // What is in such a state need not come to an orderly end.
      write_all(to, text);
      ::_exit(0);
    }
    // The cluster is taken apart before the run counts as clean.
    write_all(to, text.substr(0, text.rfind("F ")));
  }
  write_all(to, "F 0 \n");
  ::_exit(0);
}

struct Child {
  SeedRun run;
  pid_t process = -1;
  int from = -1;
  int words_from = -1;  ///< its standard error, for the last words of one that crashes
  std::string text, words;
};

Child start(const SeedRun& run) {
  int report[2], words[2];
  KINTSUGI_ASSERT(::pipe(report) == 0 && ::pipe(words) == 0);
  std::fflush(stdout);
  const pid_t process = ::fork();
  KINTSUGI_ASSERT(process >= 0);
  if (process == 0) {
    ::close(report[0]);
    ::close(words[0]);
    if (std::getenv("KINTSUGI_SIM_LOG") == nullptr) ::dup2(words[1], STDERR_FILENO);
    run_in_child(run, report[1]);
  }
  ::close(report[1]);
  ::close(words[1]);
  return {run, process, report[0], words[0], {}, {}};
}

/// Takes what has come; false when nothing more will.
bool take(int& from, std::string& into) {
  if (from < 0) return false;
  char buffer[65536];
  const ssize_t count = ::read(from, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) {
    ::close(from);
    from = -1;
    return false;
  }
  into.append(buffer, static_cast<size_t>(count));
  return true;
}

SeedReport report_of(Child& child) {
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  SeedReport report;
  report.run = child.run;
  bool complete = false;
  read_text(child.text, report, complete);
  if (WIFSIGNALED(status)) {
    const bool slow = WTERMSIG(status) == SIGALRM;
    const size_t tail = child.words.size() > 2000 ? child.words.size() - 2000 : 0;
    report.finding = {
        slow ? Violation::kTooSlow : Violation::kCrashed,
        slow ? fmt::format("took more than {} s", SeedRunner::kRealTimeLimit)
             : fmt::format("{}: {}", ::strsignal(WTERMSIG(status)), one_line(child.words.substr(tail)))};
  } else if (!complete) {
    report.finding = {Violation::kCrashed, "ended without a report: " + one_line(child.words)};
  }
  return report;
}

}  // namespace

void SeedRunner::run(const std::function<std::optional<SeedRun>()>& next,
                     const std::function<void(SeedReport)>& ended) {
  std::vector<Child> children;
  bool more = true;
  while (true) {
    while (more && children.size() < jobs_) {
      const auto run = next();
      more = run.has_value();
      if (run) children.push_back(start(*run));
    }
    if (children.empty()) return;
    std::vector<pollfd> polled;
    for (const Child& child : children) {
      polled.push_back({child.from, POLLIN, 0});
      polled.push_back({child.words_from, POLLIN, 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < children.size(); ++i) {
      if (polled[2 * i].revents != 0) take(children[i].from, children[i].text);
      if (polled[2 * i + 1].revents != 0) take(children[i].words_from, children[i].words);
    }
    for (size_t i = 0; i < children.size();) {
      if (children[i].from >= 0 || children[i].words_from >= 0) {
        ++i;
        continue;
      }
      Child child = std::move(children[i]);
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      ended(report_of(child));
    }
  }
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
