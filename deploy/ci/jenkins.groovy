// A Jenkinsfile: lets a change through if the drill passes. Set LOCKDRILL, as a global property or below environment, to where lockdrill
// is. The agent is Linux with a shell and curl. No `retry`: it would repeat failed SLOs as well.
pipeline {
  agent any
  options {
    disableConcurrentBuilds() // one drill at a time
    timeout(time: 1, unit: 'HOURS')
  }
  environment {
    DRILL = <<groovy .Experiment>>
    DRILL_FLAGS = <<groovy .Flags>>
    DRILL_REPORT = "lockdrill-report/${env.BUILD_NUMBER}"
    LOCKDRILL_BIN = "${env.WORKSPACE}/lockdrill-bin"
    PATH = "${env.WORKSPACE}/lockdrill-bin:${env.PATH}"
  }
  stages {
    stage('lockdrill') {
      steps {
        sh '''#!/bin/sh
<<indent 10 .Get>>
        '''
        sh '''#!/bin/sh
<<indent 10 .Gate>>
        '''
      }
    }
  }
  post {
    always {
      archiveArtifacts artifacts: "lockdrill-report/${env.BUILD_NUMBER}/**", allowEmptyArchive: true
      // The status alone is the gate: an inconclusive drill is an error in JUnit even where it is let through.
      junit testResults: "lockdrill-report/${env.BUILD_NUMBER}/junit.xml", allowEmptyResults: true, skipMarkingBuildUnstable: true
    }
  }
}
