#include "tests/simulation/runtime/children.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kMostWords = 2000;

struct Child {
  uint64_t number = 0;
  pid_t process = -1;
  int from = -1;
  int words_from = -1;  ///< its standard error, for the last words of one that crashes
  std::string said, words;
};

void write_all(int to, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(to, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<size_t>(written);
  }
}

Child start(const Children::Work& work, unsigned seconds) {
  int said[2], words[2];
  KINTSUGI_ASSERT(::pipe(said) == 0 && ::pipe(words) == 0);
  std::fflush(stdout);
  const pid_t process = ::fork();
  KINTSUGI_ASSERT(process >= 0);
  if (process == 0) {
    ::close(said[0]);
    ::close(words[0]);
    if (std::getenv("KINTSUGI_SIM_LOG") == nullptr) ::dup2(words[1], STDERR_FILENO);
    ::alarm(seconds);
    work.run([to = said[1]](const std::string& text) { write_all(to, text); });
    ::_exit(0);
  }
  ::close(said[1]);
  ::close(words[1]);
  return {work.number, process, said[0], words[0], {}, {}};
}

/// Takes what has come.
void take(int& from, std::string& into) {
  if (from < 0) return;
  char buffer[65536];
  const ssize_t count = ::read(from, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    ::close(from);
    from = -1;
    return;
  }
  into.append(buffer, static_cast<size_t>(count));
}

Children::Ended end_of(Child child) {
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (child.words.size() > kMostWords) child.words.erase(0, child.words.size() - kMostWords);
  Children::Ended ended{child.number, std::move(child.said), std::move(child.words), {}, false};
  if (WIFSIGNALED(status)) {
    ended.slow = WTERMSIG(status) == SIGALRM;
    ended.problem = ::strsignal(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    ended.problem = "exit status " + std::to_string(WEXITSTATUS(status));
  }
  return ended;
}

}  // namespace

void Children::run(const std::function<std::optional<Work>()>& next,
                   const std::function<void(Ended)>& ended) {
  std::vector<Child> children;
  bool more = true;
  while (true) {
    while (more && children.size() < jobs_) {
      const auto work = next();
      more = work.has_value();
      if (work) children.push_back(start(*work, seconds_));
    }
    if (children.empty()) return;
    std::vector<pollfd> polled;
    for (const Child& child : children) {
      polled.push_back({child.from, POLLIN, 0});
      polled.push_back({child.words_from, POLLIN, 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < children.size(); ++i) {
      if (polled[2 * i].revents != 0) take(children[i].from, children[i].said);
      if (polled[2 * i + 1].revents != 0) take(children[i].words_from, children[i].words);
    }
    for (size_t i = 0; i < children.size();) {
      if (children[i].from >= 0 || children[i].words_from >= 0) {
        ++i;
        continue;
      }
      Child child = std::move(children[i]);
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      ended(end_of(std::move(child)));
    }
  }
}

}  // namespace kintsugi::simulation
