#include "client/cli/printable.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace kintsugi::cli {
namespace {

TEST(ShownName, IsTheNameItselfWhenAllOfItIsPrintable) {
  for (const char* name :
       {"a", "with blanks inside", "größe-日本語-🙂", "/a/b.txt", "$HOME", "*?[]{}", "\u00a0"})
    EXPECT_EQ(shown_name(name), name);
}

TEST(ShownName, IsQuotedAsBashReadsItOtherwise) {
  EXPECT_EQ(shown_name("two\nlines"), "$'two\\nlines'");
  EXPECT_EQ(shown_name("tab\there"), "$'tab\\there'");
  EXPECT_EQ(shown_name("\x1b[31mred"), "$'\\x1b[31mred'");
  EXPECT_EQ(shown_name("over\rwritten"), "$'over\\x0dwritten'");
  EXPECT_EQ(shown_name("rub\x7f"), "$'rub\\x7f'");
  EXPECT_EQ(shown_name("it's"), "$'it\\'s'");
  EXPECT_EQ(shown_name("a\\nb"), "$'a\\\\nb'");
  EXPECT_EQ(shown_name("\"quoted\""), "$'\"quoted\"'");
  EXPECT_EQ(shown_name("blank "), "$'blank '");
  EXPECT_EQ(shown_name(" blank"), "$' blank'");
}

TEST(ShownName, HidesWhatTerminalsObeyThoughItIsUnicode) {
  EXPECT_EQ(shown_name("\u009b31m"), "$'\\xc2\\x9b31m'") << "another way to write escape and bracket";
  EXPECT_EQ(shown_name("a\u2028b"), "$'a\\xe2\\x80\\xa8b'") << "a line separator";
  EXPECT_EQ(shown_name("exe\u202egpj"), "$'exe\\xe2\\x80\\xaegpj'") << "turns the direction around";
}

TEST(ShownName, ShowsEachByteThatIsNoUtf8) {
  EXPECT_EQ(shown_name("caf\xe9"), "$'caf\\xe9'");
  EXPECT_EQ(shown_name("\xff\xfe"), "$'\\xff\\xfe'");
  EXPECT_EQ(shown_name("\xc3"), "$'\\xc3'") << "half a character";
}

TEST(ShownName, IsAnotherForEveryName) {
  const std::string alphabet("a\\nx0$'\" \n\x1b\xff\xc3\xa9", 15);
  std::set<std::string> names, shown;
  for (const char a : alphabet) {
    for (const char b : alphabet) {
      for (const char c : alphabet) {
        const std::string name{a, b, c};
        names.insert(name);
        shown.insert(shown_name(name));
      }
    }
  }
  EXPECT_EQ(shown.size(), names.size());
}

TEST(ShownMessage, StaysOnOneLineAndKeepsItsQuotes) {
  EXPECT_EQ(shown_message("/a\nb: it's gone"), "/a\\nb: it's gone");
  EXPECT_EQ(shown_message("/a\\nb: it's gone"), "/a\\\\nb: it's gone") << "another file than the one above";
  EXPECT_EQ(shown_message("\x1b[2Jcaf\xe9"), "\\x1b[2Jcaf\\xe9");
}

}  // namespace
}  // namespace kintsugi::cli
