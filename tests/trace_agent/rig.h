/// A recording of what a test does, and its records as text.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/expect_ok.h"
#include "tests/trace_agent/subject/subject.h"
#include "tracing/agent/session.h"
#include "tracing/records/trace_reader.h"
#include "tracing/repository/names.h"

namespace kintsugi::tracing {

/// A directory of traces of its own, which goes away with it.
class TraceDirectory {
 public:
  TraceDirectory() : path_(fmt::format("{}-test-{}", default_trace_directory(), ::getpid())) {
    std::filesystem::remove_all(path_);
  }
  ~TraceDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Traced : public ::testing::Test {
 protected:
  static const Image& image() {
    const auto found = Image::of_process();
    EXPECT_TRUE(found) << (found ? "" : found.error().message());
    return **found;
  }
  /// The machine code of this program as it is now.
  static std::string code() {
    const ImageSleds& sleds = image().sleds();
    return {reinterpret_cast<const char*>(sleds.text), sleds.text_bytes};
  }
  std::unique_ptr<Session> open(const std::string& start, Mode mode = Mode::kLinear,
                                uint64_t bytes = 4 << 20) {
    auto session = Session::open(image(), {directory_.path(), start, mode, bytes});
    EXPECT_TRUE(session) << (session ? "" : session.error().message());
    return session ? std::move(*session) : nullptr;
  }
  static Trace close(Session& session, End end = End::kDetached) {
    KINTSUGI_EXPECT_OK(session.close(end));
    auto trace = read_trace(session.path());
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
    return trace ? std::move(*trace) : Trace();
  }
  Trace record(const std::string& start, const std::function<void()>& work) {
    const auto session = open(start);
    if (session == nullptr) return {};
    work();
    return close(*session);
  }

  /// ">outer", "<outer", "<throws unwound", "*outer" (start) of the records of the only thread; without "subject::".
  static std::vector<std::string> lines(const Trace& trace, size_t thread = 0) {
    std::vector<std::string> found;
    if (thread >= trace.threads.size()) return found;
    for (const Record& record : trace.threads[thread].records) {
      if (record.kind == Kind::kArgument) continue;
      std::string line = record.kind == Kind::kEntry ? ">" : record.kind == Kind::kExit ? "<" : "*";
      line += name(record.function);
      if ((record.flags & kTail) != 0) line += " tail";
      if ((record.flags & kUnwound) != 0) line += " unwound";
      if ((record.flags & kNoEntry) != 0) line += " entered before";
      found.push_back(line);
    }
    return found;
  }
  static std::string name(uint32_t function) {
    static const std::vector<std::string> names = [] {
      const auto file = MappedFile::open("/proc/self/exe");
      const auto elf = ElfImage::parse(file->bytes());
      std::vector<std::string> all;
      const auto mangled_of_all = mangled_names(*elf, *read_sleds(*elf));
      for (const std::string& mangled : *mangled_of_all) {
        all.push_back(short_name(mangled));
        if (all.back().starts_with("subject::")) all.back().erase(0, std::strlen("subject::"));
      }
      return all;
    }();
    return names.at(function - 1);
  }

  TraceDirectory directory_;
};

}  // namespace kintsugi::tracing
