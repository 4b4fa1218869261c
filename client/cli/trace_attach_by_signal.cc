#include "client/cli/trace_attach_by_signal.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cli/descriptor.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/trace_file.h"
#include "client/cli/trace_times.h"
#include "common/config/units.h"
#include "tracing/records/trace_reader.h"
#include "tracing/records/trace_signal.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds, std::chrono::steady_clock;

constexpr auto kLookInterval = milliseconds(20);
/// A process that looks through its binary for the first time takes longest until it records.
constexpr auto kBeginLimit = std::chrono::seconds(10);
/// It ends so late after its time at most.
constexpr auto kEndLimit = std::chrono::seconds(10);
constexpr std::string_view kPidPrefix = "pid:", kProgramPrefix = "kintsugi";

/// Holds what the kernel says of a process.
struct ProcessFacts {
  uid_t user = 0;
  uint64_t caught = 0;  ///< signals that have a handler: bit 0 stands for the first one
  std::string program;
};

Result<ProcessFacts> facts_of(pid_t pid) {
  const std::string directory = fmt::format("/proc/{}", pid);
  ProcessFacts facts;
  std::ifstream status(directory + "/status");
  bool has_user = false, has_signals = false;
  for (std::string word; status >> word;) {
    uid_t real = 0;
    if (word == "Uid:") has_user = static_cast<bool>(status >> real >> facts.user);
    if (word == "SigCgt:") has_signals = static_cast<bool>(status >> std::hex >> facts.caught >> std::dec);
  }
  if (!has_user || !has_signals)
    return Status{Code::kNotFound, fmt::format("there is no process {} on this host", pid)};
  std::error_code error;
  facts.program = fs::read_symlink(directory + "/exe", error).filename();
  return facts;
}

Status may_be_sent(pid_t pid, const ProcessFacts& facts) {
  if (::geteuid() != 0 && ::geteuid() != facts.user)
    return {Code::kPermissionDenied,
            fmt::format("process {} is another user's: that user, and root, may have it record itself", pid)};
  if (!facts.program.starts_with(kProgramPrefix))
    return {Code::kInvalidArgument,
            fmt::format("process {} is {}, and none of Kintsugi's: it was left alone", pid,
                        facts.program.empty() ? "of the kernel" : shown_name(facts.program))};
  if ((facts.caught >> (tracing::kTraceSignal - 1) & 1) == 0)
    return {Code::kNotSupported,
            fmt::format("process {} ({}) has no handler for signal {}, which would end it: it was left alone",
                        pid, shown_name(facts.program), tracing::kTraceSignal)};
  return {};
}

Result<pid_t> signalled_pid(const std::string& where) {
  pid_t pid = 0;
  const std::string_view number = std::string_view(where).substr(std::min(kPidPrefix.size(), where.size()));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
  if (!where.starts_with(kPidPrefix) || error != std::errc() || end != number.data() + number.size() ||
      pid <= 0)
    return Status{
        Code::kInvalidArgument,
        fmt::format("--signal takes a process of this host: pid:NUMBER, not {}", shown_name(where))};
  return pid;
}

/// Traces that a process has left, or writes.
std::set<std::string> traces_of(pid_t pid, const ProcessFacts& facts) {
  std::set<std::string> found;
  std::error_code error;
  const std::string begins = fmt::format("{}-{}-", facts.program, pid);
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fmt::format("/dev/shm/kintsugi-{}", facts.user), error))
    if (entry.path().filename().string().starts_with(begins)) found.insert(entry.path());
  return found;
}

Status send_signal(const Descriptor& process, pid_t pid, uint64_t for_ms) {
  siginfo_t about{};
  about.si_signo = tracing::kTraceSignal;
  about.si_code = SI_QUEUE;
  about.si_pid = ::getpid();
  about.si_uid = ::getuid();
  about.si_value.sival_int = static_cast<int>(for_ms);
  if (::syscall(SYS_pidfd_send_signal, process.get(), tracing::kTraceSignal, &about, 0) != 0)
    return status_from_errno(errno, fmt::format("process {}", pid));
  return {};
}

/// The trace that was not there before; empty: none came.
std::string new_trace(pid_t pid, const ProcessFacts& facts, const std::set<std::string>& before) {
  const auto deadline = steady_clock::now() + kBeginLimit;
  do {
    for (const std::string& path : traces_of(pid, facts))
      if (!before.contains(path)) return path;
    std::this_thread::sleep_for(kLookInterval);
  } while (steady_clock::now() < deadline);
  return {};
}

/// Who writes a trace has it locked.
Status wait_for_end(const Descriptor& file, const std::string& path, milliseconds limit) {
  for (const auto deadline = steady_clock::now() + limit; ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;) {
    if (steady_clock::now() >= deadline)
      return {Code::kDeadlineExceeded, fmt::format("its recording does not end: {}", shown_name(path))};
    std::this_thread::sleep_for(kLookInterval);
  }
  return {};
}

Status check_options(const AttachArguments& arguments) {
  const AttachArguments none;
  if (arguments.start != none.start || arguments.follow || arguments.circular ||
      arguments.bytes != none.bytes || !arguments.recorded_for.empty() || !arguments.directives.empty())
    return {Code::kInvalidArgument, "a signal says how long, and no more: --signal takes --for and --out"};
  return {};
}

Status does_not_record(pid_t pid) {
  return {
      Code::kDeadlineExceeded,
      fmt::format("process {} does not record: it is being traced already, or its log says why not", pid)};
}

}  // namespace

Status attach_by_signal(Session& session, const AttachArguments& arguments) {
  KINTSUGI_TRY(check_options(arguments));
  KINTSUGI_ASSIGN(const pid_t pid, signalled_pid(arguments.where));
  KINTSUGI_ASSIGN(const proto::TraceRequest request, attach_request(arguments));
  // From here on the number cannot be another process's.
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.get() < 0) return status_from_errno(errno, fmt::format("process {}", pid));
  KINTSUGI_ASSIGN(const ProcessFacts facts, facts_of(pid));
  KINTSUGI_TRY(may_be_sent(pid, facts));
  const std::set<std::string> before = traces_of(pid, facts);
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  KINTSUGI_TRY(send_signal(process, pid, request.limit_ms()));
  const std::string path = new_trace(pid, facts, before);
  if (path.empty()) return does_not_record(pid);
  KINTSUGI_ASSIGN(const Descriptor file, open_trace_of(path, facts.user));
  KINTSUGI_TRY(wait_for_end(file, path, milliseconds(request.limit_ms()) + kEndLimit));
  KINTSUGI_ASSIGN(const tracing::Trace trace, tracing::read_trace(path_of(file)));
  // It is what somebody got who had the process record before, and left meanwhile.
  if (trace.began.unix_ns < now.count()) return does_not_record(pid);
  if (!arguments.out.empty()) {
    std::error_code error;
    fs::copy_file(path_of(file), arguments.out, fs::copy_options::overwrite_existing, error);
    if (error) return status_from_errno(error.value(), arguments.out);
  }
  proto::TraceResponse answer;
  answer.set_phase(proto::TraceResponse::ENDED);
  answer.set_path(path);
  answer.set_functions(trace.functions);
  answer.set_patched(trace.functions);
  answer.set_end(static_cast<proto::TraceResponse::End>(trace.end));
  answer.set_began("a signal came");
  answer.set_began_unix_ms(std::chrono::duration_cast<milliseconds>(now).count());
  show_recording(session, answer);
  if (!session.json) fmt::print("Began {}: a signal came\n", time_of_day(answer.began_unix_ms()));
  return {};
}

}  // namespace kintsugi::cli
