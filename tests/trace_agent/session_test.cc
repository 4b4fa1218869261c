// What is recorded of code that runs, and what becomes of the code.
#include <barrier>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/trace_agent/rig.h"

namespace kintsugi::tracing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

struct Recordings : Traced {};

TEST_F(Recordings, HaveEveryEntryAndExitFromTheStartFunctionOn) {
  const Trace trace = record("subject::outer", [] {
    subject::leaf();  // too early
    subject::outer();
  });
  EXPECT_THAT(lines(trace), ElementsAre("*outer", ">outer", ">middle", ">leaf", "<leaf", ">leaf", "<leaf",
                                        "<middle", ">leaf", "<leaf", "<outer"));
  EXPECT_EQ(trace.lost, 0);
  EXPECT_EQ(trace.end, End::kDetached);
  EXPECT_EQ(trace.start, "subject::outer");
}

TEST_F(Recordings, LeaveAloneWhatAnEarlierProcessOfTheSameNumberRecorded) {
  const std::string first = open("outer")->path();
  const size_t at = first.rfind('-') + 1;
  const int number = std::stoi(first.substr(at));
  for (int next = number + 1; next <= number + 3; ++next)
    std::ofstream(first.substr(0, at) + std::to_string(next) + ".trace") << "earlier";
  const Trace trace = record("outer", subject::outer);
  EXPECT_THAT(lines(trace), Not(IsEmpty()));
}

TEST_F(Recordings, GoOnInTheOrderOfTime) {
  const Trace trace = record("outer", subject::outer);
  double before = 0;
  for (const Record& each : trace.threads.at(0).records) {
    EXPECT_GE(trace.nanoseconds(each.ticks), before);
    before = trace.nanoseconds(each.ticks);
  }
  EXPECT_LT(before, 60e9);
}

TEST_F(Recordings, TouchOnlyFunctionsThatTheStartFunctionReaches) {
  const auto session = open("middle");
  const std::string before = code();
  subject::beside();
  subject::outer();
  const auto changed = [&](auto* function) {
    const auto at = reinterpret_cast<uint64_t>(function) - image().sleds().text;
    return std::memcmp(before.data() + at, reinterpret_cast<const void*>(function), kSledBytes) != 0;
  };
  EXPECT_TRUE(changed(&subject::leaf));
  EXPECT_FALSE(changed(&subject::beside));
  EXPECT_FALSE(changed(&subject::catches));
  EXPECT_LT(session->patched(), session->functions());
}

TEST_F(Recordings, FollowCallersThatWereOnTheStackBefore) {
  // leaf() is called by middle(), which returns to outer(), which then calls leaf() itself.
  const Trace trace = record("leaf", subject::outer);
  EXPECT_THAT(lines(trace), ElementsAre("*leaf", ">leaf", "<leaf", ">leaf", "<leaf", "<middle entered before",
                                        ">leaf", "<leaf", "<outer entered before"));
}

TEST_F(Recordings, HaveExitsOfFunctionsThatAnExceptionLeft) {
  const Trace trace = record("catches", subject::catches);
  EXPECT_THAT(lines(trace),
              ElementsAre("*catches", ">catches", ">passes_on", ">throws", ">leaf", "<leaf",
                          "<throws unwound", "<passes_on unwound", ">leaf", "<leaf", "<catches"));
}

TEST_F(Recordings, HaveTailCallsAsExits) {
  int result = 0;
  Trace trace = record("tail_call", [&] { result = subject::tail_call(4); });
  EXPECT_EQ(result, 5);
  EXPECT_THAT(lines(trace),
              ElementsAre("*tail_call", ">tail_call", "<tail_call tail", ">tail_target", "<tail_target"));
  trace = record("all", [&] { result = subject::tail_call_by(&subject::tail_target, 7); });
  EXPECT_EQ(result, 8);
  EXPECT_THAT(lines(trace),
              ElementsAre(">tail_call_by", "<tail_call_by tail", ">tail_target", "<tail_target"));
}

TEST_F(Recordings, FollowCallsOfVirtualFunctions) {
  const Trace trace = record("by_table", [] { subject::by_table(1); });
  EXPECT_THAT(lines(trace),
              ElementsAre("*by_table", ">by_table", ">Square::corners", "<Square::corners", "<by_table"));
}

/// A call that a function without sleds makes is recorded as one of its caller.
TEST_F(Recordings, LookThroughFunctionsOfLibraries) {
  const Trace direct = record("calls_library", subject::calls_library);
  EXPECT_THAT(lines(direct), ElementsAre("*calls_library", ">calls_library", ">behind_library",
                                         "<behind_library", "<calls_library"));
  const Trace by_table = record("calls_library_by_table", [] { subject::calls_library_by_table(2); });
  EXPECT_THAT(lines(by_table), ElementsAre("*calls_library_by_table", ">calls_library_by_table",
                                           ">behind_table", "<behind_table", "<calls_library_by_table"));
}

TEST_F(Recordings, HaveCoroutinesThatGoOnAsFunctions) {
  int result = 0;
  const Trace trace = record("use_numbers", [&] { result = subject::use_numbers(); });
  EXPECT_EQ(result, 12);
  const std::vector<std::string> found = lines(trace);
  EXPECT_EQ(std::ranges::count(found, ">count_up"), 1);
  EXPECT_EQ(std::ranges::count(found, ">count_up.resume"), 2);
  EXPECT_EQ(std::ranges::count(found, "<count_up.resume"), 2);
  EXPECT_EQ(std::ranges::count(found, ">leaf"), 2);
  EXPECT_THAT(found, Contains(">count_up.destroy"));
}

TEST_F(Recordings, HaveTheFrameOfACoroutineBehindItsEntries) {
  const Trace trace = record("use_numbers", [] { subject::use_numbers(); });
  std::vector<uint64_t> resumed, destroyed;
  const std::vector<Record>& records = trace.threads.at(0).records;
  for (size_t i = 1; i < records.size(); ++i) {
    if (records[i].kind != Kind::kArgument) continue;
    EXPECT_EQ(records[i - 1].kind, Kind::kEntry);
    EXPECT_EQ(records[i - 1].function, records[i].function);
    EXPECT_EQ(records[i].extra, 1);
    (name(records[i].function) == "count_up.resume" ? resumed : destroyed).push_back(records[i].ticks);
  }
  ASSERT_THAT(resumed, SizeIs(2));
  EXPECT_EQ(resumed[0], resumed[1]);
  EXPECT_NE(resumed[0], 0);
  EXPECT_THAT(destroyed, ElementsAre(resumed[0]));
}

TEST_F(Recordings, HaveTheValuesThatSomebodyAskedFor) {
  constexpr uint8_t kFirst = 1, kReturned = 1 << (kReturnedPlace - 1);
  auto session = Session::open(image(), {.directory = directory_.path(),
                                         .start = "all",
                                         .bytes = 4 << 20,
                                         .recorded = {{"subject::tail_target", kFirst | kReturned},
                                                      {"subject::tail_call", kReturned},
                                                      {"subject::of_another_program", kFirst}}});
  ASSERT_TRUE(session) << session.error().message();
  const int returned = subject::tail_call(1234);
  subject::leaf();
  std::vector<std::string> found;
  const Trace trace = close(**session);
  for (const Record& record : trace.threads.at(0).records)
    if (record.kind == Kind::kArgument)
      found.push_back(
          fmt::format("{} {}: {}", name(record.function), record.extra, static_cast<int>(record.ticks)));
  EXPECT_THAT(found, ElementsAre("tail_target 1: 1234", fmt::format("tail_target 7: {}", returned)))
      << "what a tail call returns is told by whom it called";
}

TEST_F(Recordings, RefuseValuesThatMakeNoSense) {
  const auto refused = [&](std::vector<RecordedValues> values) {
    return SessionOptions{.directory = directory_.path(), .start = "all", .recorded = std::move(values)}
        .check()
        .code();
  };
  EXPECT_EQ(refused({{"f", 1}}), Code::kOk);
  EXPECT_EQ(refused({{"", 1}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{"f", 0}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{"f", 0x80}}), Code::kInvalidArgument);
  EXPECT_EQ(refused({{std::string(RecordedValues::kMostLetters + 1, 'f'), 1}}), Code::kInvalidArgument);
  EXPECT_EQ(refused(std::vector<RecordedValues>(RecordedValues::kMost + 1, {"f", 1})), Code::kLimitExceeded);
}

TEST_F(Recordings, LeaveArgumentsAndResultsAsTheyAre) {
  std::vector<RecordedValues> all_values;
  for (const char* const each : {"integers", "doubles", "extended", "various", "promises"})
    all_values.push_back({std::string("subject::") + each, 0x7f});
  auto opened = Session::open(
      image(),
      {.directory = directory_.path(), .start = "all", .bytes = 4 << 20, .recorded = std::move(all_values)});
  ASSERT_TRUE(opened) << opened.error().message();
  const std::unique_ptr<Session> session = std::move(*opened);
  for (int i = 0; i < 1000; ++i)
    EXPECT_TRUE(subject::registers_survive());
}

TEST_F(Recordings, GiveCodeBackByteForByte) {
  const std::string before = code();
  for (const char* const start : {"all", "outer", "by_table"}) {
    const auto session = open(start);
    EXPECT_NE(code(), before);
    subject::outer();
    subject::by_table(0);
    KINTSUGI_EXPECT_OK(session->close(End::kDetached));
    EXPECT_EQ(code(), before) << start;
  }
}

TEST_F(Recordings, EndWhenTheirMemoryIsFullAndSayWhatIsLost) {
  const auto session = open("call_empty", Mode::kLinear, kLeastTraceBytes);
  subject::call_empty(1'000'000);
  EXPECT_TRUE(session->full());
  const Trace trace = close(*session, End::kFull);
  EXPECT_EQ(trace.lost + trace.threads.at(0).records.size(), 2'000'003);
  EXPECT_EQ(lines(trace).front(), "*call_empty");
}

TEST_F(Recordings, ThatGoOnForEverKeepTheNewestRecordsAndTheStackBelowThem) {
  const auto session = open("call_empty", Mode::kCircular, kLeastTraceBytes);
  subject::call_empty(1'000'000);
  const Trace trace = close(*session);
  EXPECT_EQ(trace.lost, 0);
  const std::vector<std::string> found = lines(trace);
  EXPECT_LT(found.size(), 100'000);
  EXPECT_EQ(found.back(), "<call_empty");
  const std::vector<uint32_t> stack = stack_at_begin(trace.threads.at(0));
  ASSERT_FALSE(stack.empty());
  EXPECT_EQ(name(stack.front()), "call_empty");
}

TEST_F(Recordings, HaveEachThreadByItself) {
  const auto session = open("all");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 100; ++round)
        subject::outer();
    });
  for (std::thread& thread : threads)
    thread.join();
  const Trace trace = close(*session);
  ASSERT_THAT(trace.threads, SizeIs(4));
  for (const ThreadTrace& thread : trace.threads)
    EXPECT_THAT(thread.records, SizeIs(1000));
}

TEST_F(Recordings, CountWhatMoreThreadsDoThanTheyHaveRoomFor) {
  constexpr int kThreads = kMostThreads + 3;
  const auto session = open("all", Mode::kLinear, 16 << 20);
  std::barrier together(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      together.arrive_and_wait();
      subject::leaf();
      together.arrive_and_wait();
    });
  for (std::thread& thread : threads)
    thread.join();
  const Trace trace = close(*session);
  EXPECT_THAT(trace.threads, SizeIs(kMostThreads));
  EXPECT_EQ(trace.lost, 6);
}

TEST_F(Recordings, CountWhatManyThreadsDoOneAfterTheOther) {
  constexpr int kThreads = 3 * kMostThreads;
  const auto session = open("all", Mode::kLinear, 16 << 20);
  for (int i = 0; i < kThreads; ++i)
    std::thread(subject::leaf).join();
  const Trace trace = close(*session);
  EXPECT_THAT(trace.threads, SizeIs(kMostThreads));
  EXPECT_EQ(trace.lost, 2 * (kThreads - kMostThreads));
}

TEST_F(Recordings, SurviveMoreCallsThanTheirStackHasRoomFor) {
  const Trace trace = record("deep", [] { subject::deep(2 * kMostDepth); });
  EXPECT_EQ(trace.threads.at(0).records.size(), 1 + 2 * (2 * kMostDepth + 1));
  EXPECT_THAT(trace.threads.at(0).stack, IsEmpty());
}

TEST_F(Recordings, OutliveAProcessThatIsKilled) {
  KINTSUGI_ASSERT_OK(make_trace_directory(directory_.path()));
  int output[2];
  ASSERT_EQ(::pipe(output), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(output[1], STDOUT_FILENO);
    ::execl(KINTSUGI_KILLED, KINTSUGI_KILLED, directory_.path().c_str(), nullptr);
    ::_exit(127);
  }
  ::close(output[1]);
  char line[8] = {};
  EXPECT_EQ(::read(output[0], line, sizeof(line)), 8);
  ::close(output[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::filesystem::directory_iterator files(directory_.path());
  const std::string path = files->path();
  EXPECT_EQ(files->status().permissions() & std::filesystem::perms::mask,
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto trace = read_trace(path);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->pid, child);
  EXPECT_EQ(trace->end, End::kNone);
  EXPECT_THAT(trace->program, EndsWith("trace_killed"));
  ASSERT_THAT(trace->threads, SizeIs(1));
  EXPECT_THAT(trace->threads[0].records, Not(IsEmpty()));
}

TEST_F(Recordings, AreRefusedWhileADebuggerIsAttached) {
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t debugger = ::fork();
  if (debugger == 0) {
    const bool attached = ::ptrace(PTRACE_SEIZE, ::getppid(), nullptr, nullptr) == 0;
    (void)!::write(ready[1], attached ? "y" : "n", 1);
    char end = 0;
    ::close(done[1]);
    (void)!::read(done[0], &end, 1);
    ::_exit(0);
  }
  ::close(done[0]);
  char attached = 0;
  ASSERT_EQ(::read(ready[0], &attached, 1), 1);
  const auto session = Session::open(image(), {directory_.path(), "all"});
  ::close(done[1]);
  ::waitpid(debugger, nullptr, 0);
  for (const int pipe : ready)
    ::close(pipe);
  if (attached != 'y') GTEST_SKIP() << "the kernel lets no process look at its parent";
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code(), Code::kConflict);
  EXPECT_THAT(session.error().message(), HasSubstr("debugger"));
}

TEST_F(Recordings, AreRefusedWhereThereIsNoRoomForThem) {
  const std::string path = directory_.path();
  KINTSUGI_ASSERT_OK(make_trace_directory(path));
  if (::mount("none", path.c_str(), "tmpfs", 0, "size=2m,mode=0700") != 0)
    GTEST_SKIP() << "only root can make a small file system";
  const std::string before = code();
  const auto session = Session::open(image(), {path, "all"});
  const bool left_something = !std::filesystem::is_empty(path);
  ::umount(path.c_str());
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code(), Code::kNoSpace);
  EXPECT_FALSE(left_something);
  EXPECT_EQ(code(), before);
}

TEST_F(Recordings, GoToNoDirectoryThatOthersLookInto) {
  std::filesystem::create_directory(directory_.path());
  std::filesystem::permissions(directory_.path(), std::filesystem::perms(0750));
  const auto session = Session::open(image(), {directory_.path(), "all"});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code(), Code::kPermissionDenied);
}

TEST_F(Recordings, OfAFunctionThatIsNotThereAreRefused) {
  const auto session = Session::open(image(), {directory_.path(), "no_such_function"});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code(), Code::kNotFound);
  EXPECT_THAT(session.error().message(), HasSubstr("no_such_function"));
}

TEST_F(Recordings, KeepOnlyTheNewestTraces) {
  for (int i = 0; i < 20; ++i)
    record("leaf", subject::leaf);
  const std::filesystem::directory_iterator files(directory_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 16);
}

TEST_F(Recordings, BeginWhileOtherProcessesLookForOldTraces) {
  KINTSUGI_ASSERT_OK(make_trace_directory(directory_.path()));
  std::atomic<bool> end{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      while (!end)
        remove_old_traces(directory_.path(), 15);
    });
  for (int i = 0; i < 1000; ++i) {
    const std::string path = fmt::format("{}/{}.trace", directory_.path(), i);
    const auto memory = TraceMemory::make(path, kLeastTraceBytes, {.program = "a"});
    EXPECT_TRUE(memory) << i << ": " << memory.error().message();
    if (!memory) break;
  }
  end = true;
  for (std::thread& each : others)
    each.join();
}

/// KINTSUGI_TRACE_ROUNDS=20000 trace_agent_test --gtest_filter='*Rounds*' is the long form.
TEST_F(Recordings, ComeAndGoInManyRoundsWhileThreadsRun) {
  const char* const wanted = std::getenv("KINTSUGI_TRACE_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 200;
  const std::string before = code();
  std::atomic<bool> end{false};
  std::atomic<uint64_t> calls{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!end) {
        subject::catches();
        subject::outer();
        wrong += subject::registers_survive() ? 0 : 1;
        wrong += subject::tail_call_by(&subject::tail_target, 7) == 8 ? 0 : 1;
        wrong += subject::use_numbers() == 12 ? 0 : 1;
        ++calls;
      }
    });
  constexpr const char* kStarts[] = {"all", "outer", "registers_survive", "catches"};
  for (int round = 0; round < rounds; ++round) {
    const uint64_t calls_before = calls;
    const auto session = open(kStarts[round % 4], round % 2 == 0 ? Mode::kLinear : Mode::kCircular, 1 << 20);
    ASSERT_NE(session, nullptr);
    while (round % 8 == 0 && calls < calls_before + 3)
      std::this_thread::yield();
    KINTSUGI_ASSERT_OK(session->close(End::kDetached));
  }
  end = true;
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(code(), before);
}

}  // namespace
}  // namespace kintsugi::tracing
