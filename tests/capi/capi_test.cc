// The C interface as programs use it: against a cluster of real processes.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

const std::string kBuild = KINTSUGI_BUILD, kBinaries = KINTSUGI_BINARIES, kSource = KINTSUGI_SOURCE;
const std::string kLibrary = KINTSUGI_LIBRARY;

class CApi : public ProcessCluster {
 protected:
  void SetUp() override {
    ProcessCluster::SetUp();
    start({"--chunkservers", "5", "--policy", "rs-3-2-64k", "--repair-delay", "0"});
  }

  /// A program that ends well, with the cluster in its environment.
  void run(const std::vector<std::string>& arguments, std::vector<std::string> more_environment = {}) {
    more_environment.insert(more_environment.end(), environment().begin(), environment().end());
    const Outcome outcome = run_command(arguments, more_environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
  void run_chapters(const std::vector<std::string>& chapters,
                    const std::vector<std::string>& environment = {}) {
    std::vector<std::string> arguments{kBinaries + "/capi_program"};
    arguments.insert(arguments.end(), chapters.begin(), chapters.end());
    run(arguments, environment);
  }
};

TEST_F(CApi, AProgramInCDoesWhatFilesAndNamesAllow) {
  run_chapters({"files", "names"});
  EXPECT_TRUE(healthy());
}

TEST_F(CApi, BadArgumentsAndHandlesThatWereEndedAreErrors) {
  run_chapters({"arguments"});
}

TEST_F(CApi, OthersThanRootMayDoWhatModesGroupsAndAccessListsSay) {
  if (::geteuid() != 0) GTEST_SKIP() << "the modes of what root made are tested";
  run_chapters({"users"});
}

TEST_F(CApi, ManyThreadsAndAsynchronousCallsShareAConnection) {
  run_chapters({"threads"});
}

TEST_F(CApi, CallsThatMeetARestartOfTheMetaserverEndWell) {
  run_chapters({"restart"}, {"KILL_METASERVER=kill -9 " + std::to_string(pid_of("metaserver")),
                             "START_METASERVER=" + kBinaries + "/kintsugi cluster start --dir " +
                                 cluster_directory() + " >&2"});
}

TEST_F(CApi, FilesInSnapshotsAreOpenedForReadingOnly) {
  run_chapters({"snapshots"}, {"MAKE_SNAPSHOT=" + kBinaries + "/kintsugi snapshot create / s >&2"});
}

TEST_F(CApi, TheExamplesOfTheDocumentationWork) {
  run({kBinaries + "/library_example_c"});
  const Outcome file = kintsugi({"cat", "/greeting"});
  EXPECT_EQ(file.out, "Hello from C\n") << file.err;
  run({kBinaries + "/library_example_cc"});
  const Outcome journal = kintsugi({"cat", "/journal"});
  EXPECT_EQ(journal.out, "one\ntwo\n") << journal.err;
}

TEST_F(CApi, PythonUsesItThroughCtypes) {
#ifdef KINTSUGI_SANITIZED
  GTEST_SKIP() << "a sanitizer has to be in the program, not in a library that it loads";
#endif
  run({"/usr/bin/env", "python3", kSource + "/tests/capi/ctypes_program.py", kLibrary});
}

TEST_F(CApi, AProgramOutsideOfTheTreeIsBuiltWithPkgConfig) {
#ifdef KINTSUGI_SANITIZED
  GTEST_SKIP() << "the library wants a program with the sanitizer in it";
#endif
  const std::string prefix = path("installed"), program = path("program");
  const Outcome installed = run_command(
      {"/usr/bin/env", "cmake", "--install", kBuild, "--component", "library", "--prefix", prefix});
  ASSERT_EQ(installed.exit_code, 0) << installed.err;
  const std::string find = "export PKG_CONFIG_PATH=$(dirname $(find " + prefix + " -name kintsugi.pc)); ";
  const Outcome built =
      run_command({"/bin/sh", "-c",
                   find + KINTSUGI_CC + " -std=c11 -Wall -Werror -o " + program + " " + kBuild +
                       "/tests/library_example.c $(pkg-config --cflags --libs kintsugi)"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  run({"/bin/sh", "-c", find + "LD_LIBRARY_PATH=$(pkg-config --variable=libdir kintsugi) " + program});
  EXPECT_TRUE(std::filesystem::exists(prefix + "/share/man/man3/kintsugi.3"));
}

/// Names that a regular expression finds in a text.
std::set<std::string> names_in(const std::string& text, const std::string& expression) {
  const std::regex pattern(expression);
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    names.insert((*at)[1]);
  return names;
}

std::string text_of(const std::string& path) {
  std::ifstream in(kSource + "/" + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CApiLibrary, ExportsWhatTheHeaderDeclaresAndNothingElse) {
  const std::set<std::string> declared =
      names_in(text_of("client/capi/include/kintsugi/kintsugi.h"), R"(KINTSUGI_API[^(;]*\b(kintsugi_\w+)\()");
  EXPECT_GT(declared.size(), 40u);
  const Outcome symbols = run_command({"/usr/bin/env", "nm", "-D", "--defined-only", kLibrary});
  ASSERT_EQ(symbols.exit_code, 0) << symbols.err;
  std::set<std::string> exported = names_in(symbols.out, R"( [^A] (\S+)\n)");
  std::set<std::string> expected;
  for (const std::string& name : declared)
    expected.insert(name + "@@KINTSUGI_1");
#ifndef KINTSUGI_SANITIZED
  EXPECT_EQ(exported, expected);
#endif
  const Outcome dynamic = run_command({"/usr/bin/env", "readelf", "-d", kLibrary});
  EXPECT_NE(dynamic.out.find("soname: [libkintsugi.so.1]"), std::string::npos) << dynamic.out;
}

TEST(CApiLibrary, ItsManualPageNamesEveryFunctionAndIsWellFormed) {
  const std::string page = text_of("docs/man/kintsugi.3");
  for (const std::string& name : names_in(text_of("client/capi/include/kintsugi/kintsugi.h"),
                                          R"(KINTSUGI_API[^(;]*\b(kintsugi_\w+)\()"))
    EXPECT_NE(page.find(name + "("), page.npos) << name;
  const Outcome formatted = run_command({"/bin/sh", "-c",
                                         "command -v groff >/dev/null || exit 0; groff -man -Tutf8 -ww -z " +
                                             kSource + "/docs/man/kintsugi.3"});
  EXPECT_EQ(formatted.exit_code, 0);
  EXPECT_EQ(formatted.err, "");
}

}  // namespace
}  // namespace kintsugi::processes
