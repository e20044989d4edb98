#include "files/durable_files.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "temporary_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

class DurableFiles : public test::FolderTest {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  template <class Work>
  static std::string error_of(const Work& work) {
    try {
      work();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  const fs::path file_ = folder_ / "a.txt";
};

TEST_F(DurableFiles, AFileIsWholeOrWhatItWas) {
  write_file(file_, "one");
  {
    NewFile out(file_);
    out.writer().write("two");
    EXPECT_EQ(names().size(), 2);
    EXPECT_EQ(content(file_), "one");
  }  // without commit()
  EXPECT_EQ(content(file_), "one");
  EXPECT_EQ(names(), std::set<std::string>{"a.txt"});
  write_file(file_, std::string(3 << 20, 'x'));
  EXPECT_EQ(content(file_), std::string(3 << 20, 'x'));
  EXPECT_EQ(names(), std::set<std::string>{"a.txt"});
}

TEST_F(DurableFiles, AFullDiskLeavesNothingBehindAndIsNamed) {
  write_file(file_, "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { write_file(file_, std::string(1 << 20, 'x')); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, file_.string() + ": cannot be written: File too large");
  EXPECT_EQ(content(file_), "old");
  EXPECT_EQ(names(), std::set<std::string>{"a.txt"});
}

TEST_F(DurableFiles, TemporaryNamesAreNotReusedAndFollowNoLinks) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const NewFile out(file_);
    for (const std::string& name : names()) EXPECT_TRUE(seen.insert(name).second) << name;
  }
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link");
  EXPECT_NE(error_of([&] { FileWriter(folder_ / "link", FileWriter::Start::new_file); }), "");
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

TEST_F(DurableFiles, LinksToFilesAreWrittenThroughAndOtherThingsRefused) {
  write_file(file_, "one");
  fs::create_symlink("a.txt", folder_ / "link");
  write_file(folder_ / "link", "two");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content(file_), "two");
  EXPECT_EQ(error_of([&] { write_file("/dev/null", "x"); }),
            "/dev/null: is not a file that could be replaced");
  EXPECT_EQ(error_of([&] { write_file(folder_ / "none" / "b", "x"); }),
            (folder_ / "none" / "b").string() + ": cannot be written: No such file or directory");
}

TEST_F(DurableFiles, AFolderTakesTheOthersPlace) {
  for (const char* text : {"one", "two"}) {
    NewFolder made(folder_ / "step-1");
    FileWriter(made.path() / "x", FileWriter::Start::new_file).write("");
    write_file(made.path() / "x", text);
    made.commit();
    EXPECT_EQ(content(folder_ / "step-1" / "x"), text);
  }
  { const NewFolder dropped(folder_ / "step-2"); }
  EXPECT_EQ(names(), std::set<std::string>{"step-1"});
}

TEST_F(DurableFiles, SweepingRemovesWhatNobodyIsMaking) {
  for (const char* name : {".step-3.tmp", ".step-4.removed", ".step-5.0123456789abcdef.tmp"}) {
    fs::create_directories(folder_ / name / "inside");
  }
  std::ofstream(folder_ / ".run.json.4711.tmp") << "x";
  std::ofstream(folder_ / ".other") << "x";
  const NewFile file(file_);
  const NewFolder folder(folder_ / "step-6");
  EXPECT_EQ(names().size(), 7);
  sweep_temporaries(folder_);
  EXPECT_EQ(names().size(), 3);  // .other, and the two that are being made
  sweep_temporaries(folder_ / "none");
}

TEST_F(DurableFiles, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { read_file(file_); }),
            file_.string() + ": is a pipe or device, not a file");
  EXPECT_EQ(error_of([&] { read_file(folder_); }), folder_.string() + ": is a folder, not a file");
  EXPECT_EQ(error_of([&] { read_file(folder_ / "none"); }),
            (folder_ / "none").string() + ": no such file");
  write_file(folder_ / "large", std::string(101, 'x'));
  EXPECT_EQ(
      error_of([&] { read_file(folder_ / "large", 100); }),
      (folder_ / "large").string() + ": is larger than the 100 bytes that are read of such a file");
}

TEST_F(DurableFiles, ReasonsAreTheSystems) {
  if (::geteuid() == 0) GTEST_SKIP() << "everything is permitted to root";
  write_file(file_, "x");
  fs::permissions(file_, fs::perms::none);
  EXPECT_EQ(error_of([&] { read_file(file_); }),
            file_.string() + ": cannot be read: Permission denied");
}

}  // namespace
}  // namespace ssa
