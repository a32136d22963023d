// A Jenkinsfile: lets a change through if the drill passes. Set LOCKDRILL, as a global property or below environment, to where lockdrill
// is. The agent is Linux with a shell and curl. No `retry`: it would repeat failed SLOs as well.
pipeline {
  agent any
  options {
    disableConcurrentBuilds() // one drill at a time
    timeout(time: <<if .Approve>>24<<else>>1<<end>>, unit: 'HOURS')<<if .Approve>> // the approval included<<end>>
  }
<<- if .Schedule>>
  triggers {
    cron(<<groovy .Schedule>>)
  }
<<- end>>
  environment {
    DRILL = <<groovy .Experiment>>
    DRILL_FLAGS = <<groovy .Flags>>
<<- if .Approve>>
    DRILL_CONSENT = ''
<<- end>>
    DRILL_REPORT = "lockdrill-report/${env.BUILD_NUMBER}"
    LOCKDRILL_BIN = "${env.WORKSPACE}/lockdrill-bin"
    PATH = "${env.WORKSPACE}/lockdrill-bin:${env.PATH}"
  }
  stages {
<<- if .Approve>>
    stage('plan') {
      steps {
        sh '''#!/bin/sh
<<indent 10 .Get>>
        '''
        sh '''#!/bin/sh
<<indent 10 .PlanStep>>
        '''
        script { env.DRILL_PLAN = readFile('lockdrill-plan/hash').trim() }
      }
    }
    stage('approve') {
      steps {
        input message: "Run the plan ${env.DRILL_PLAN}? The stage before shows it.", submitter: <<groovy .Approve>> // users or groups
      }
    }
<<- end>>
    stage('lockdrill') {
      steps {
<<- if not .Approve>>
        sh '''#!/bin/sh
<<indent 10 .Get>>
        '''
<<- end>>
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
